package delivery

import (
	"context"
	"time"

	"github.com/sloengine/sloengine/sla/report"
)

// Content is a report as it is sent.
type Content struct {
	Subject, Text, HTML string
	CSV, JSON           []byte
	Running             bool // the period is not over in the zones of all lines: it is sent when it is
}

func (c *Content) of(f Format) []byte {
	switch f {
	case HTML:
		return []byte(c.HTML)
	case CSV:
		return c.CSV
	}
	return c.JSON
}

// MakeFunc makes the report on a period.
type MakeFunc func(ctx context.Context, r *Report, p report.Period) (*Content, error)

// ZoneFunc is the zone of a report whose settings have none.
type ZoneFunc func(r *Report) *time.Location
