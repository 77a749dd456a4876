package ui

import (
	"slices"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/annotation"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
)

// annotationRow is one annotation of the range.
type annotationRow struct {
	At                          format.Stamp
	Kind, Service, Text, Author string
}

// maxAnnotationRows bounds the list. The API has all of them.
const maxAnnotationRows = 50

// momentsOf are the annotations of a service that the charts of a page may show.
func (ui *Handler) momentsOf(r *sla.SLOReport, rng slo.Span) []annotation.Annotation {
	if ui.Opt.Annotations == nil {
		return nil
	}
	from := rng.From
	if p := r.Period.From; !p.IsZero() && p.Before(from) {
		from = p
	}
	return ui.Opt.Annotations.List(r.SLO.ID.Service(), slo.Span{From: from})
}

// annotationsTag changes with the annotations.
func (ui *Handler) annotationsTag() string {
	if ui.Opt.Annotations == nil {
		return ""
	}
	return strconv.FormatUint(ui.Opt.Annotations.Changes(), 10)
}

// moments are annotations as charts mark them.
func moments(all []annotation.Annotation) []chart.Moment {
	out := make([]chart.Moment, len(all))
	for i, a := range all {
		out[i] = chart.Moment{At: a.At, Title: format.NewStamp(a.At, time.Time{}).Text + ", " + string(a.Kind) + ": " + format.Safe(a.Text, format.MaxTitle)}
	}
	return out
}

// annotationRows lists those of a range, the latest first.
func annotationRows(all []annotation.Annotation, rng slo.Span, now time.Time) (rows []annotationRow, more int) {
	for _, a := range slices.Backward(all) {
		switch {
		case a.At.Before(rng.From) || !a.At.Before(rng.To):
		case len(rows) >= maxAnnotationRows:
			more++
		default:
			rows = append(rows, annotationRow{
				At: format.NewStamp(a.At, now), Kind: string(a.Kind), Service: format.Safe(a.Service, format.MaxName), Text: format.Safe(a.Text, format.MaxText), Author: format.Safe(a.Author, format.MaxName),
			})
		}
	}
	return rows, more
}
