package web

import (
	"fmt"
	"slices"
	"time"

	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// parkedPart is what the engine's page shows of parked generations.
type parkedPart struct {
	Text string
	Rows []fold.Generation // the newest first
	More int
}

// shownParked is how many parked generations the page lists.
const shownParked = 50

func (h *engineHandler) parkedPart(v site.View) *parkedPart {
	if h.Opt.Parked == nil {
		return nil
	}
	list := h.Opt.Parked()
	p := &parkedPart{
		Text: fmt.Sprintf("%s of %s", format.Bytes(v.Eng.Parked.Bytes), format.Bytes(v.Eng.Parked.LimitBytes))}
	p.More = max(0, len(list)-shownParked)
	p.Rows = slices.Clone(list[p.More:])
	slices.Reverse(p.Rows)
	return p
}

// changeFacts say what the last change of the spec did.
func changeFacts(s *counting.SpecChange, now time.Time) []site.Fact {
	if s == nil {
		return nil
	}
	f := []site.Fact{
		{Name: "Last change of counted definitions", Value: format.Ago(s.At, now), At: format.NewStamp(s.At, now)}}
	add := func(name string, ids []string) {
		if len(ids) > 0 {
			f = append(f, site.Fact{Name: name, Value: format.Count(len(ids)), Note: idText(ids)})
		}
	}
	add("New since restart", s.Started)
	add("Counted from the history", s.Rebuilt)
	add("Resumed", s.Resumed)
	var removed []string
	for _, p := range s.Parked {
		if p.Removed {
			removed = append(removed, p.ID)
		}
	}
	add("Removed", removed)
	return f
}

// idText lists the first few IDs.
func idText(ids []string) string {
	const most = 5
	text := ""
	for i, id := range ids {
		if i == most {
			return text + fmt.Sprintf(" and %d more", len(ids)-i)
		}
		if i > 0 {
			text += ", "
		}
		text += format.Safe(id, format.MaxTitle)
	}
	return text
}
