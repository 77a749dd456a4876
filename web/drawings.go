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

func (ui *UI) draw() error {
	ui.drawn.marks = map[chart.Mark]template.HTML{}
	for _, s := range []slo.State{slo.StateOK, slo.StateAtRisk, slo.StateExhausted, slo.StateNoData} {
		m := chart.StateMark(s)
		text, err := ui.Fragment("mark", m)
		if err != nil {
			return err
		}
		ui.drawn.marks[m] = text
	}
	var err error
	ui.drawn.none, err = ui.Fragment("spark", (*chart.Spark)(nil))
	return err
}
