
# Packages and archives: see docs/packaging.md.  Part of the Makefile.

#: Packages, see docs/packaging.md; dist and rpm are of the commit that is checked out:
#:   packages       Debian's, for this machine's release: build/packages/*.deb
#:   dist           the archive for PGXN, in build/dist
#:   rpm            RPM packages, in build/rpm
#:   control-path   the extension for extension_control_path of PostgreSQL 18, as
#:                  images of CloudNativePG have it; TO=directory (build/control-path)
#:   packages-test, dist-test, rpm-test, control-path-test
#:                  build, contents and a server with each: Debian's in clean roots, to
#:                  install, upgrade and purge, RELEASES="bookworm trixie" for some;
#:                  the last upgrades a server of PostgreSQL 15 by pg_upgrade
#:   arm64          library, lectl, unit tests, 200 schedules and a server, under
#:                  emulation (as root)
#:

RELEASES ?=
TO ?= build/control-path

.PHONY: packages packages-test dist dist-test rpm rpm-test control-path \
	control-path-test arm64
packages:
	scripts/deps packages
	@packages/build

packages-test:
	scripts/deps packages-test
	@packages/test/run $(RELEASES)

dist:
	@packages/dist

dist-test:
	scripts/deps dist
	@PG_CONFIG="$(PG_CONFIG)" packages/test/dist

rpm:
	scripts/deps rpm
	@PG_CONFIG="$(PG_CONFIG)" packages/rpm/build

rpm-test: rpm
	@PG_CONFIG="$(PG_CONFIG)" packages/test/rpm

control-path:
	packages/control-path "$(PG_CONFIG)" "$(TO)" $(if $(WITHOUT_CURL),WITHOUT_CURL=1)

control-path-test:
	scripts/deps versions
	@packages/test/control-path

arm64:
	scripts/deps arm64
	@PG_CONFIG="$(PG_CONFIG)" packages/arm64
