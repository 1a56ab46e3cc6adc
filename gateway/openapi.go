// Package gateway carries the description of the HTTP interface.
package gateway

import (
	_ "embed"
	"regexp"
)

// OpenAPI is openapi.yaml, as served at /openapi.yaml.
//
//go:embed openapi.yaml
var OpenAPI []byte

// Version is that of the gateway and of its description: info.version.
var Version = string(regexp.MustCompile(`(?m)^  version: (\S+)$`).FindSubmatch(OpenAPI)[1])
