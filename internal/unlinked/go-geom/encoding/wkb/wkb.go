// Package wkb declares the encoding of shapes that parquet-go names: see internal/unlinked/README.md.
package wkb

import (
	"encoding/binary"
	"errors"

	"github.com/twpayne/go-geom"
)

var errUnlinked = errors.New("go-geom is not linked")

// NDR is little-endian.
var NDR = binary.LittleEndian

func Marshal(geom.T, binary.ByteOrder) ([]byte, error) { return nil, errUnlinked }
func Unmarshal([]byte) (geom.T, error)                 { return nil, errUnlinked }
