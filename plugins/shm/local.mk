libweft_sources += plugins/shm/shm.c plugins/shm/shm.h plugins/shm/group.c plugins/shm/group.h \
    plugins/shm/arena.c plugins/shm/arena.h plugins/shm/sleep.c plugins/shm/share.c plugins/shm/share.h plugins/shm/named.c plugins/shm/prove.c \
    plugins/shm/identity.c plugins/shm/identity.h plugins/shm/watch.c plugins/shm/watch.h \
    plugins/shm/ring.c plugins/shm/ring.h plugins/shm/chan.c plugins/shm/chan.h \
    plugins/shm/send.c plugins/shm/recv.c plugins/shm/fetch.c plugins/shm/remote.c \
    plugins/shm/segment.c plugins/shm/segment.h plugins/shm/adopt.c
