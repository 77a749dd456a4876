// Package grpc is there for go mod tidy: see internal/unlinked/README.md.
package grpc
