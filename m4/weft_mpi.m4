# SPDX-License-Identifier: BSD-3-Clause
# WEFT_MPI: look for the headers of Open MPI and MPICH. weft never links with an MPI; weft-bench --against mpi loads a
# module that is compiled with the headers of the MPI it speaks to.

# WEFT_MPI_ONE(NAME, PREFIX, PKG-CONFIG MODULE, MACRO OF ITS mpi.h): HAVE_PREFIX, PREFIX_CFLAGS.
AC_DEFUN([WEFT_MPI_ONE],
[AC_MSG_CHECKING([for mpi.h of $1])
$2_CFLAGS=
have_$2=no
AS_IF([test "x$with_mpi" != xno && test "x$cross_compiling" != xyes],
  [$2_CFLAGS=`$PKG_CONFIG --cflags $3 2>/dev/null`
   weft_save_cppflags=$CPPFLAGS
   CPPFLAGS="$CPPFLAGS $$2_CFLAGS"
   AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>
     #ifndef $4
     #error another MPI
     #endif]])], [have_$2=yes])
   CPPFLAGS=$weft_save_cppflags])
AC_MSG_RESULT([$have_$2])
AC_SUBST([$2_CFLAGS])
AM_CONDITIONAL([HAVE_$2], [test $have_$2 = yes])])

AC_DEFUN([WEFT_MPI],
[AC_ARG_WITH([mpi],
  [AS_HELP_STRING([--without-mpi], [do not build the modules behind weft-bench --against mpi])])
WEFT_MPI_ONE([Open MPI], [OPENMPI], [ompi-c], [OPEN_MPI])
WEFT_MPI_ONE([MPICH], [MPICH], [mpich], [MPICH_VERSION])])
