# lectl/lectl.mk
#
# lectl, a client: leader election at the shell.  PGXS builds a program or a
# library, not both, so these are our own rules.  The Makefile includes this file
# after pgxs.mk, if PGXS is installed.

#: The client, part of all, install and uninstall:
#:   lectl          build it (lectl/lectl) and its manual page; EMULATOR=command
#:                  runs it if it is built for another architecture
#:

LECTL_OBJS = $(patsubst $(srcdir)/%.c,%.o,$(sort $(wildcard $(srcdir)/lectl/*.c)))
EXTRA_CLEAN += lectl/lectl lectl/lectl.1 $(LECTL_OBJS) $(LECTL_OBJS:.o=.d)

# A server may be installed without libpq-dev, which builds clients.
# libpgfeutils prints tables; all packages with libpgcommon have it.
ifneq ($(and $(libpq_pgport),$(wildcard $(libpq_srcdir)/libpq-fe.h)),)
LECTL_DIR = $(if $(out_of_tree),$(CURDIR)/)lectl

$(LECTL_OBJS): override CPPFLAGS += -I$(libpq_srcdir)
$(LECTL_OBJS): $(EXTENSION).control build/built-for
-include $(LECTL_OBJS:.o=.d)
ifdef out_of_tree
$(LECTL_OBJS): | $(LECTL_DIR)
$(LECTL_DIR):
	$(MKDIR_P) $@
endif

# libpq_pgport includes libpgcommon and libpgport with some servers only, and
# libraries come behind their users.  The static libraries of a self-built server
# may be unfit for a position-independent program.
LECTL_LIBS = -L$(pkglibdir) -L$(libdir) -lpgfeutils -lpgcommon -lpgport \
	$(libpq_pgport) -lm
LECTL_LINK = $(CC) $(CFLAGS) $(LECTL_OBJS) $(LDFLAGS) $(LDFLAGS_EX) \
	$(LECTL_LIBS)

lectl/lectl: $(LECTL_OBJS)
	$(LECTL_LINK) -o $@ || $(LECTL_LINK) -no-pie -o $@

# The program's help is the source of its manual page.
lectl/lectl.1: lectl/lectl $(srcdir)/lectl/man.awk
	$(EMULATOR) lectl/lectl --help > $@.help
	awk -f $(srcdir)/lectl/man.awk $@.help > $@ || { rm -f $@; exit 1; }
	rm -f $@.help

.PHONY: lectl install-lectl uninstall-lectl
all: lectl/lectl lectl/lectl.1
lectl: lectl/lectl lectl/lectl.1

install: install-lectl
install-lectl: lectl/lectl lectl/lectl.1
	$(MKDIR_P) '$(DESTDIR)$(bindir)' '$(DESTDIR)$(mandir)/man1'
	$(INSTALL_PROGRAM) $< '$(DESTDIR)$(bindir)/lectl'
	$(INSTALL_DATA) lectl/lectl.1 '$(DESTDIR)$(mandir)/man1/lectl.1'

uninstall: uninstall-lectl
uninstall-lectl:
	rm -f '$(DESTDIR)$(bindir)/lectl' '$(DESTDIR)$(mandir)/man1/lectl.1'
endif
