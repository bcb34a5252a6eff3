# SPDX-License-Identifier: BSD-3-Clause
# What configure asks about the compiler, the sanitizers and the libraries.

# WEFT_TRY_CFLAG(FLAG, VARIABLE): append FLAG to VARIABLE if the compiler takes it without a warning.
AC_DEFUN([WEFT_TRY_CFLAG],
[AS_VAR_PUSHDEF([weft_flag], [weft_cv_cflag_$1])
AC_CACHE_CHECK([whether $CC takes $1], [weft_flag],
  [weft_save_cflags=$CFLAGS
   CFLAGS="$CFLAGS -Werror $1"
   AC_COMPILE_IFELSE([AC_LANG_PROGRAM()], [AS_VAR_SET([weft_flag], [yes])], [AS_VAR_SET([weft_flag], [no])])
   CFLAGS=$weft_save_cflags])
AS_VAR_IF([weft_flag], [yes], [$2="$$2 $1"])
AS_VAR_POPDEF([weft_flag])])

AC_DEFUN([WEFT_COMPILER],
[WEFT_CFLAGS=
WEFT_TRY_CFLAG([-std=gnu11], [WEFT_CFLAGS])
WEFT_TRY_CFLAG([-fvisibility=hidden], [WEFT_CFLAGS])
# A fused multiply-add rounds once where two instructions round twice: results must not depend on the ISA.
WEFT_TRY_CFLAG([-ffp-contract=off], [WEFT_CFLAGS])
m4_foreach_w([weft_warning],
  [-Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wvla -Wformat=2 -Wundef],
  [WEFT_TRY_CFLAG(weft_warning, [WEFT_CFLAGS])
])
AC_ARG_ENABLE([werror],
  [AS_HELP_STRING([--enable-werror], [turn compiler warnings into errors (what the tests of the project do)])])
AS_IF([test "x$enable_werror" = xyes], [WEFT_CFLAGS="$WEFT_CFLAGS -Werror"])
AC_SUBST([WEFT_CFLAGS])])

# WEFT_SANITIZER: --enable-sanitizer takes one or several, with commas between them.
AC_DEFUN([WEFT_SANITIZER],
[AC_ARG_ENABLE([sanitizer],
  [AS_HELP_STRING([--enable-sanitizer=KINDS], [build with sanitizers: address, undefined, both (address,undefined), or thread])],
  [], [enable_sanitizer=no])
WEFT_SANITIZER_CFLAGS=
AS_IF([test "x$enable_sanitizer" != xno],
  [weft_kinds=
   for weft_kind in `echo "$enable_sanitizer" | tr , ' '`; do
     AS_CASE([$weft_kind], [address|undefined|thread], [weft_kinds=$weft_kinds$weft_kind,],
       [AC_MSG_ERROR([--enable-sanitizer=$enable_sanitizer: $weft_kind is not one of address, undefined and thread])])
   done
   AS_IF([test -z "$weft_kinds"], [AC_MSG_ERROR([--enable-sanitizer wants a value: address, undefined or thread])])
   AS_CASE([$weft_kinds], [*address*thread*|*thread*address*],
     [AC_MSG_ERROR([--enable-sanitizer=$enable_sanitizer: a program cannot be built with both address and thread])])
   WEFT_SANITIZER_CFLAGS="-fsanitize=$enable_sanitizer -fno-omit-frame-pointer"
   AS_CASE([$weft_kinds], [*undefined*],
     [WEFT_SANITIZER_CFLAGS="$WEFT_SANITIZER_CFLAGS -fno-sanitize-recover=undefined"])
   weft_save_cflags=$CFLAGS
   CFLAGS="$CFLAGS $WEFT_SANITIZER_CFLAGS"
   AC_MSG_CHECKING([whether $CC links with -fsanitize=$enable_sanitizer])
   AC_LINK_IFELSE([AC_LANG_PROGRAM()], [AC_MSG_RESULT([yes])],
     [AC_MSG_RESULT([no])
      AC_MSG_ERROR([$CC cannot link with -fsanitize=$enable_sanitizer])])
   CFLAGS=$weft_save_cflags])
AC_SUBST([WEFT_SANITIZER_CFLAGS])
AC_SUBST([enable_sanitizer])
AM_CONDITIONAL([SANITIZER], [test "x$enable_sanitizer" != xno])])

# WEFT_HARDEN(WORD, VARIABLE, FLAGS...): append the first of FLAGS that a program can be built with, without a warning, to VARIABLE,
# and WORD to WEFT_HARDENING.
AC_DEFUN([WEFT_HARDEN],
[AC_MSG_CHECKING([for $1])
weft_found=no
weft_save_cflags=$CFLAGS
for weft_flag in $3; do
  weft_flag=`echo "$weft_flag" | tr + ' '`
  CFLAGS="$weft_save_cflags -Werror $weft_flag"
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <string.h>]], [[char a[9]; return strlen(memset(a, 0, sizeof a)) > 0;]])],
    [weft_found=$weft_flag; break])
done
CFLAGS=$weft_save_cflags
AC_MSG_RESULT([$weft_found])
AS_IF([test "x$weft_found" != xno],
  [$2="$$2 $weft_found"
   WEFT_HARDENING="$WEFT_HARDENING $1"])])

# WEFT_HARDEN_ALL: canaries in functions with arrays, copies checked against what is known of their destination (only with
# optimisation), tables of addresses that are read-only once the program runs. Sanitizers do the first two, better.
AC_DEFUN([WEFT_HARDEN_ALL],
[AC_ARG_ENABLE([hardening],
  [AS_HELP_STRING([--disable-hardening], [build without stack protector, _FORTIFY_SOURCE and read-only relocations])])
WEFT_HARDENING=
WEFT_HARDENING_LDFLAGS=
AS_IF([test "x$enable_hardening" != xno],
  [AS_IF([test "x$enable_sanitizer" = xno],
     [WEFT_HARDEN([stack-protector], [WEFT_CFLAGS], [-fstack-protector-strong -fstack-protector])
      WEFT_HARDEN([fortify], [WEFT_CFLAGS], [-U_FORTIFY_SOURCE+-D_FORTIFY_SOURCE=3 -U_FORTIFY_SOURCE+-D_FORTIFY_SOURCE=2])])
   WEFT_HARDEN([relro], [WEFT_HARDENING_LDFLAGS], [-Wl,-z,relro])
   WEFT_HARDEN([now], [WEFT_HARDENING_LDFLAGS], [-Wl,-z,now])])
AC_SUBST([WEFT_HARDENING])
AC_SUBST([WEFT_HARDENING_LDFLAGS])])

# WEFT_LIBRARY(PREFIX, PKG-CONFIG MODULES, DEBIAN PACKAGE): a library that must be there.
AC_DEFUN([WEFT_LIBRARY],
[PKG_CHECK_MODULES([$1], [$2], [],
  [AC_MSG_ERROR([$2 was not found: install the Debian package $3, or set PKG_CONFIG_PATH (./bootstrap build installs what is missing)])])])

AC_DEFUN([WEFT_DEPENDENCIES],
[WEFT_LIBRARY([HWLOC], [hwloc >= 2.0], [libhwloc-dev])
WEFT_LIBRARY([CRYPTO], [libcrypto >= 3.0], [libssl-dev])
WEFT_LIBRARY([JANSSON], [jansson >= 2.10], [libjansson-dev])
WEFT_LIBRARY([XXHASH], [libxxhash >= 0.8], [libxxhash-dev])
# Topologies are also read as XML where expat is.
PKG_CHECK_MODULES([EXPAT], [expat >= 2.1],
  [AC_DEFINE([HAVE_EXPAT], [1], [Define if topologies can be read as XML.])],
  [AC_MSG_WARN([expat was not found: topologies will not be read as XML (Debian package libexpat1-dev)])])
# A codec is a plugin of its own where zstd is.
PKG_CHECK_MODULES([ZSTD], [libzstd >= 1.5], [have_zstd=yes],
  [have_zstd=no
   AC_MSG_WARN([libzstd was not found: there will be no codec lossless (Debian package libzstd-dev)])])
AM_CONDITIONAL([HAVE_ZSTD], [test "x$have_zstd" = xyes])

# So is start-up through PMIx.
PKG_CHECK_MODULES([PMIX], [pmix >= 3.0], [have_pmix=yes],
  [have_pmix=no
   AC_MSG_NOTICE([libpmix was not found: ranks under mpirun and srun meet by the environment (Debian package libpmix-dev)])])
AM_CONDITIONAL([HAVE_PMIX], [test "x$have_pmix" = xyes])

# The transport over UCX is compiled with its headers, and loads the library when it is used.
PKG_CHECK_MODULES([UCX], [ucx >= 1.13], [have_ucx=yes],
  [have_ucx=no
   AC_MSG_NOTICE([UCX was not found: there will be no transport ucx (Debian package libucx-dev)])])
AM_CONDITIONAL([HAVE_UCX], [test "x$have_ucx" = xyes])
# And the transport over InfiniBand and RoCE.
PKG_CHECK_MODULES([VERBS], [libibverbs >= 1.11], [have_verbs=yes],
  [have_verbs=no
   AC_MSG_NOTICE([libibverbs was not found: there will be no transport verbs (Debian package libibverbs-dev)])])
AM_CONDITIONAL([HAVE_VERBS], [test "x$have_verbs" = xyes])
# Only the tests need CUnit.
PKG_CHECK_MODULES([CUNIT], [cunit], [have_cunit=yes],
  [have_cunit=no
   AC_MSG_WARN([CUnit was not found: make check will not build (Debian package libcunit1-dev)])])
# Only one test needs FUSE, to lose what was not synced.
PKG_CHECK_MODULES([FUSE3], [fuse3 >= 3.10], [FUSE3_CFLAGS="$FUSE3_CFLAGS -DHAVE_FUSE3"],
  [FUSE3_CFLAGS= FUSE3_LIBS=
   AC_MSG_WARN([fuse3 was not found: no test of checkpoints after a loss of power (Debian package libfuse3-dev)])])
AC_SEARCH_LIBS([dlopen], [dl], [], [AC_MSG_ERROR([no dlopen in libc or libdl])])
AC_SEARCH_LIBS([pthread_create], [pthread], [], [AC_MSG_ERROR([no pthread_create in libc or libpthread])])
AC_SEARCH_LIBS([shm_open], [rt])
AC_SEARCH_LIBS([sqrt], [m])
AC_CHECK_FUNCS([memfd_create process_vm_readv pidfd_open])])
