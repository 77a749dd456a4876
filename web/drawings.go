package web

import (
	"html/template"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
)

// drawings are the parts that every row of a list repeats, drawn once.
type drawings struct {
	marks map[chart.Mark]template.HTML
	none  template.HTML // instead of a sparkline
}

func (w *Web) draw() error {
	w.drawn.marks = map[chart.Mark]template.HTML{}
	for _, s := range []slo.State{slo.StateOK, slo.StateAtRisk, slo.StateExhausted, slo.StateNoData} {
		m := chart.StateMark(s)
		text, err := w.Fragment("mark", m)
		if err != nil {
			return err
		}
		w.drawn.marks[m] = text
	}
	var err error
	w.drawn.none, err = w.Fragment("spark", (*chart.Spark)(nil))
	return err
}
