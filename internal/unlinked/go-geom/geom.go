// Package geom declares the shapes that parquet-go names: see internal/unlinked/README.md.
package geom

// A T is a shape, of which there are none.
type T interface {
	Layout() Layout
	Bounds() *Bounds
}

// A Layout is which coordinates a point has.
type Layout int

const (
	NoLayout Layout = iota
	XY
	XYZ
	XYM
	XYZM
)

func (Layout) ZIndex() int { return -1 }
func (Layout) MIndex() int { return -1 }

// A Bounds is the box around a shape, and empty.
type Bounds struct{}

func (*Bounds) IsEmpty() bool   { return true }
func (*Bounds) Min(int) float64 { return 0 }
func (*Bounds) Max(int) float64 { return 0 }

type shape struct{}

func (shape) Layout() Layout  { return NoLayout }
func (shape) Bounds() *Bounds { return nil }

type (
	Point              struct{ shape }
	LineString         struct{ shape }
	Polygon            struct{ shape }
	MultiPoint         struct{ shape }
	MultiLineString    struct{ shape }
	MultiPolygon       struct{ shape }
	GeometryCollection struct{ shape }
)
