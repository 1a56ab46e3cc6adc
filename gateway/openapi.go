// Package gateway carries the description of the HTTP interface.
package gateway

import _ "embed"

// OpenAPI is openapi.yaml, as served at /openapi.yaml.
//
//go:embed openapi.yaml
var OpenAPI []byte
