#!/bin/sh
# Fetches ptxas, cuobjdump and nvdisasm into <target>/toolchain/ptxas/bin: for resource reports and PTX tests, on
# machines with or without a GPU. Running kernels needs none of them. Versions: versions.toml. Run again, it does
# nothing.
#
# Use: toolchain/ptxas.sh [TARGET_FOLDER]      default: $CARGO_TARGET_DIR, else target/ of this repository
set -eu
here=$(cd "$(dirname "$0")" && pwd)
target=${1:-${CARGO_TARGET_DIR:-$here/../target}}
dest=$target/toolchain/ptxas

packages=$(sed -n '/^\[ptxas\]/,/^$/s/^\([a-z-]*\) *= *"\(.*\)"$/\1==\2/p' "$here/versions.toml")
[ -n "$packages" ] || { echo "ptxas.sh: no [ptxas] versions in $here/versions.toml" >&2; exit 1; }
if [ -x "$dest/bin/ptxas" ] && [ "$(cat "$dest/versions" 2>/dev/null)" = "$packages" ]; then
    echo "ptxas.sh: $dest is up to date"
    exit 0
fi

python3 -m pip --version >/dev/null 2>&1 || {
    echo "ptxas.sh: needs python3 with pip (on Debian: apt-get install python3-pip)" >&2
    exit 1
}
mkdir -p "$target/toolchain"
staging=$(mktemp -d "$target/toolchain/ptxas.XXXXXX")
trap 'rm -rf "$staging"' EXIT
echo "ptxas.sh: fetching" $packages
# shellcheck disable=SC2086 # one word a package
PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --no-deps --no-compile --target "$staging/packages" $packages
mkdir "$staging/bin"
for program in ptxas cuobjdump nvdisasm; do
    found=$(find "$staging/packages" -type f -name "$program" | head -n 1)
    [ -n "$found" ] || { echo "ptxas.sh: no $program in the packages" >&2; exit 1; }
    mv "$found" "$staging/bin/$program"
    chmod 755 "$staging/bin/$program"
done
rm -rf "$staging/packages" "$dest"
echo "$packages" >"$staging/versions"
chmod 755 "$staging"
mv "$staging" "$dest"
trap - EXIT
"$dest/bin/ptxas" --version | tail -n 1
