#!/usr/bin/env bash
# Copies the OpenAPI documents of the Kubernetes version in go.mod to this folder,
# compressed, under the names that a case gives them.
set -euo pipefail
cd "$(dirname "$0")"
source=$(cd ../../.. && go list -m -f '{{.Dir}}' k8s.io/kubernetes)/api/openapi-spec
rm -f ./*.json.gz
gzip -9nc "$source/swagger.json" >v2.json.gz
for file in "$source"/v3/api*__v*_openapi.json; do
	name=$(basename "$file" _openapi.json)
	gzip -9nc "$file" >"${name//__/_}.json.gz"
done
