# lectl/lectl.mk
#
# lectl, a client: leader election at the shell.  PGXS builds a program or a
# library, not both, so this has rules of its own.  Part of the Makefile, which
# includes it after pgxs.mk, if that is there.

#: The client, part of all, install and uninstall:
#:   lectl          build it (lectl/lectl)
#:

LECTL_OBJS = $(patsubst $(srcdir)/%.c,%.o,$(sort $(wildcard $(srcdir)/lectl/*.c)))
EXTRA_CLEAN += lectl/lectl $(LECTL_OBJS) $(LECTL_OBJS:.o=.d)

# A server may be there without what clients are built with: libpq-dev.
# libpgfeutils prints tables; all packages that have libpgcommon have it.
ifneq ($(and $(libpq_pgport),$(wildcard $(libpq_srcdir)/libpq-fe.h)),)
LECTL_DIR = $(if $(VPATH),$(CURDIR)/)lectl

$(LECTL_OBJS): override CPPFLAGS += -I$(libpq_srcdir)
$(LECTL_OBJS): $(EXTENSION).control
-include $(LECTL_OBJS:.o=.d)
ifdef VPATH
$(LECTL_OBJS): | $(LECTL_DIR)
$(LECTL_DIR):
	$(MKDIR_P) $@
endif

# libpq_pgport names the libraries that it is called after with some servers only,
# and those come behind what makes use of them.  The static libraries of a server
# that somebody built need not be fit for a position-independent program.
LECTL_LIBS = -L$(pkglibdir) -L$(libdir) -lpgfeutils -lpgcommon -lpgport \
	$(libpq_pgport) -lm
LECTL_LINK = $(CC) $(CFLAGS) $(LECTL_OBJS) $(LDFLAGS) $(LDFLAGS_EX) \
	$(LECTL_LIBS)

lectl/lectl: $(LECTL_OBJS)
	$(LECTL_LINK) -o $@ || $(LECTL_LINK) -no-pie -o $@

.PHONY: lectl install-lectl uninstall-lectl
all: lectl/lectl
lectl: lectl/lectl

install: install-lectl
install-lectl: lectl/lectl
	$(MKDIR_P) '$(DESTDIR)$(bindir)'
	$(INSTALL_PROGRAM) $< '$(DESTDIR)$(bindir)/lectl'

uninstall: uninstall-lectl
uninstall-lectl:
	rm -f '$(DESTDIR)$(bindir)/lectl'
endif
