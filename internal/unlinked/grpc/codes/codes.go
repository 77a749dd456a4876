// Package codes is there for go mod tidy: see internal/unlinked/README.md.
package codes
