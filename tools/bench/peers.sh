#!/usr/bin/env bash
# Brings what pario is compared to: peers.sh PEER [DIRECTORY]
# Installs the packages that a peer needs, where they are missing, and builds its program, if it has
# one of ours, in the directory. The benchmark calls this by itself; it may be called again at any time.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

# need FILE_OR_COMMAND PACKAGE: a Debian package that brings a header or a command.
need() {
  [ -e "$1" ] && return
  command -v "$1" >/dev/null 2>&1 && return
  if [ "$(id -u)" != 0 ]; then
    echo "$2 is not installed (apt-get install $2)" >&2
    exit 1
  fi
  echo "installing $2" >&2
  if ! try_install "$2" && ! { timeout 120 apt-get update -qq >/dev/null 2>&1 && try_install "$2"; }; then
    echo "$2 cannot be installed" >&2
    exit 1
  fi
}

try_install() {
  # RUNLEVEL: services that a package brings are not started.
  RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive timeout 300 apt-get -o DPkg::Lock::Timeout=60 \
    install -y -qq --no-install-recommends "$1" >/dev/null 2>&1
}

case "${1:-}" in
  zmq)
    need cc build-essential
    need /usr/include/zmq.h libzmq3-dev
    cc -O2 -Wall -Wextra -Werror -o "${2:?a directory is missing}/zmq" "$here/peers/zmq.c" -lzmq
    ;;
  gluster)
    # The benchmark starts it by itself, within namespaces.
    need glusterd glusterfs-server
    need mount.glusterfs glusterfs-client
    need ip iproute2
    need unshare util-linux
    ;;
  openmpi)
    need cc build-essential
    need mpirun.openmpi openmpi-bin
    need "/usr/lib/$(cc -print-multiarch)/openmpi/include/mpi.h" libopenmpi-dev
    for program in modes grid; do
      mpicc.openmpi -O3 -Wall -Wextra -Werror -o "${2:?a directory is missing}/$program-openmpi" "$here/peers/$program.c"
    done
    ;;
  mpich)
    need cc build-essential
    need mpirun.mpich mpich
    need "/usr/include/$(cc -print-multiarch)/mpich/mpi.h" libmpich-dev
    for program in modes grid; do
      mpicc.mpich -O3 -Wall -Wextra -Werror -o "${2:?a directory is missing}/$program-mpich" "$here/peers/$program.c"
    done
    ;;
  arrays)
    need cc build-essential
    need gfortran gfortran
    need mpirun.openmpi openmpi-bin
    lib="/usr/lib/$(cc -print-multiarch)"
    need "$lib/openmpi/include/mpi.h" libopenmpi-dev
    need "$lib/libga-openmpi.a" libglobalarrays-dev
    need "$lib/libarmci-openmpi.a" libarmci-mpi-dev
    need "$lib/libscalapack-openmpi.so" libscalapack-openmpi-dev
    need "$lib/libblas.so" libopenblas-dev
    need "$lib/liblapack.so" libopenblas-dev
    mpicc.openmpi -O3 -Wall -Wextra -Werror -o "${2:?a directory is missing}/arrays" "$here/peers/arrays.c" \
      -lga-openmpi -larmci-openmpi -lscalapack-openmpi -llapack -lblas -lgfortran -lm
    ;;
  slices)
    need python3 python3-minimal
    python3 -c 'import venv, ensurepip' 2>/dev/null || need /no/such/file python3-venv
    place="${2:?a directory is missing}/python"
    [ -x "$place/bin/python" ] || python3 -m venv "$place" >&2
    if ! timeout 600 "$place/bin/pip" install -q tensorstore zarr numpy >&2; then
      echo "tensorstore, zarr and numpy cannot be installed from PyPI" >&2
      exit 1
    fi
    ;;
  *)
    echo "usage: peers.sh zmq|openmpi|mpich|arrays|slices DIRECTORY, or peers.sh gluster" >&2
    exit 2
    ;;
esac
