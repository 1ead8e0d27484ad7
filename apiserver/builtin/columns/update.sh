#!/usr/bin/env bash
# Writes ../columns-<minor>.json for older versions of Kubernetes: what each kind's
# columns were, where they differ from those of the version in the main module.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() { # version of k8s.io/kubernetes -> JSON of all columns
	local dir=$work/$1
	mkdir -p "$dir"
	sed 1d "$here/main.go" >"$dir/main.go" # without the tag that keeps it out of the main module
	(
		cd "$dir"
		printf 'module columns\n\ngo 1.26.0\n' >go.mod
		local source
		source=$(go mod download -json "k8s.io/kubernetes@v1.$1" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
		local args=()
		for name in $(sed -n 's#^\tk8s.io/\([a-z-]*\) => ./staging.*#\1#p' "$source/go.mod"); do
			args+=(-replace "k8s.io/$name=k8s.io/$name@v0.$1")
		done
		go mod edit "${args[@]}" -require "k8s.io/kubernetes@v1.$1"
		go mod tidy >/dev/null 2>&1
		go run . >"$work/$1.json"
	)
}

newest=$(cd "$here/../../.." && go list -m -f '{{.Version}}' k8s.io/kubernetes)
newest=${newest#v1.}
build "$newest"
for version in "$@"; do
	build "$version"
	python3 - "$work/$version.json" "$work/$newest.json" "$here/../columns-${version%%.*}.json" <<'PY'
import json, sys
old, new = (json.load(open(p)) for p in sys.argv[1:3])
different = {kind: columns for kind, columns in sorted(old.items()) if columns != new.get(kind)}
with open(sys.argv[3], "w") as out:
    json.dump(different, out, indent=1, ensure_ascii=False)
    out.write("\n")
PY
done
