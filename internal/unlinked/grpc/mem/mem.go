// Package mem is there for go mod tidy: see internal/unlinked/README.md.
package mem
