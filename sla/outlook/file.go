package outlook

import (
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/slo"
)

// FileVersion is the version of the file that keeps the score.
const FileVersion = 1

// file is the score on disk.
type file struct {
	Version int                        `json:"version"`
	Records map[slo.ID]forecast.Record `json:"records"`
	Open    []openGroup                `json:"open"`
}

// openGroup are the open forecasts of one group. They mean nothing once the objective or the window has changed, or the
// counts have begun again.
type openGroup struct {
	SLO        slo.ID                         `json:"slo"`
	Group      slo.Group                      `json:"group,omitempty"`
	Objective  string                         `json:"objective"`
	Window     string                         `json:"window"`
	Generation uint32                         `json:"generation"`
	Open       [len(forecast.LeadNames)]*open `json:"forecasts"`
}

// restore reads the file. A broken one is moved aside, since nothing but the score depends on it.
func (k *Keeper) restore() error {
	if k.opt.File == "" {
		return nil
	}
	k.file = fsys.StateFile[file]{
		Files: k.opt.Files, Name: k.opt.File, What: "score of forecasts",
		Damaged: "score of forecasts is unreadable, starting without it",
		Newest:  FileVersion, Logger: k.opt.Logger,
	}
	f, err := k.file.Load(nil)
	if err != nil {
		return err
	}
	for id, r := range f.Records {
		k.records[id] = &r
	}
	k.restored = map[string]openGroup{}
	for _, g := range f.Open {
		k.restored[keyOf(g.SLO, g.Group)] = g
	}
	return nil
}

// takeUp gives a group the forecasts that an earlier process made of it.
func (k *Keeper) takeUp(g *group, r *sla.SLOReport) {
	was, ok := k.restored[g.key]
	if !ok {
		return
	}
	same := was.Objective == g.slo.Objective.Percent() && was.Window == g.slo.Window.String() &&
		was.Generation == r.Generation
	for h, o := range was.Open {
		switch {
		case o == nil:
		case same:
			g.open[h] = *o
		default:
			k.records[g.slo.ID][h].Missed++
			k.changed = true
		}
	}
	delete(k.restored, g.key)
}

// save writes the file.
func (k *Keeper) save() {
	if k.opt.File == "" || !k.changed {
		return
	}
	f := file{Version: FileVersion, Records: map[slo.ID]forecast.Record{}}
	for id, r := range k.records {
		if *r != (forecast.Record{}) {
			f.Records[id] = *r
		}
	}
	for _, g := range k.groups {
		x := openGroup{SLO: g.slo.ID, Group: g.values, Objective: g.slo.Objective.Percent(), Window: g.slo.Window.String()}
		if g.report != nil {
			x.Generation = g.report.Generation
		}
		any := false
		for h := range g.open {
			if o := g.open[h]; !o.Due.IsZero() {
				x.Open[h], any = &o, true
			}
		}
		if any {
			f.Open = append(f.Open, x)
		}
	}
	if err := k.file.Save(f); err != nil {
		k.opt.Metrics.unsaved.Inc()
		k.opt.Logger.Error("saving the score of forecasts failed", "file", k.opt.File, "err", err)
		return
	}
	k.changed = false
}
