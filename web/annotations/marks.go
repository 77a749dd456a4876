package annotations

import (
	"slices"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/sla/annotation"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// Marks are the annotations that the charts of a page may show, in the order of their times.
type Marks struct {
	all     []annotation.Annotation
	Moments []chart.Moment
}

// Of returns the annotations of a service from a time on, or of all services with "". There are none without a store.
func Of(s *site.Site, service string, from time.Time) Marks {
	if s.Opt.Annotations == nil {
		return Marks{}
	}
	m := Marks{all: s.Opt.Annotations.List(service, slo.Span{From: from})}
	for i := range m.all {
		a := &m.all[i]
		m.Moments = append(m.Moments, chart.Moment{At: a.At, Title: format.NewStamp(a.At, time.Time{}).Text + ", " +
			string(a.Kind) + ": " + format.Safe(a.Text, format.MaxTitle)})
	}
	return m
}

// Tag changes with the annotations.
func Tag(s *site.Site) string {
	if s.Opt.Annotations == nil {
		return ""
	}
	return strconv.FormatUint(s.Opt.Annotations.Changes(), 10)
}

// Listed are annotations as a page lists them below its charts, the latest first.
type Listed struct {
	Rows []row
	More int // that are not listed
}

type row struct {
	At                          format.Stamp
	Kind, Service, Text, Author string
}

// maxRows bounds the list. The API has all of them.
const maxRows = 50

// In lists those of a range.
func (m Marks) In(rng slo.Span, now time.Time) (l Listed) {
	for _, a := range slices.Backward(m.all) {
		switch {
		case a.At.Before(rng.From) || !a.At.Before(rng.To):
		case len(l.Rows) >= maxRows:
			l.More++
		default:
			l.Rows = append(l.Rows, row{
				At: format.NewStamp(a.At, now), Kind: string(a.Kind), Service: format.Safe(a.Service, format.MaxName),
				Text: format.Safe(a.Text, format.MaxText), Author: format.Safe(a.Author, format.MaxName),
			})
		}
	}
	return l
}
