package web

import (
	"fmt"
	"strings"

	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// forecastSection says how the forecasts of all service levels did.
func forecastSection(v site.View) []section {
	if v.Rep == nil || v.Rep.Outlooks == nil {
		return nil
	}
	all := v.Rep.Outlooks
	facts := []site.Fact{{Name: "Groups", Value: format.Count(all.Groups), Note: "of " + format.Count(all.Of)}}
	for i, name := range forecast.LeadNames {
		s := &all.Record[i]
		f := site.Fact{Name: "Inside at " + strings.ReplaceAll(name, "_", " "), Value: format.NoValue,
			Note: format.Plural(s.Made, "forecast") + " made, none checked"}
		if share, ok := s.Share(); ok {
			f.Value = format.Percent(share, 0)
			f.Note = fmt.Sprintf("%s of %s checked, %s made, %s missed", format.Count(s.Inside), format.Count(s.Checked),
				format.Count(s.Made), format.Count(s.Missed))
		}
		facts = append(facts, f)
	}
	if all.Failed != "" {
		facts = append(facts, site.Fact{Name: "Counts not read since", Value: format.Ago(all.Since, v.Now),
			Note: format.Safe(all.Failed, format.MaxText)})
	}
	return []section{{"Forecasts", facts}}
}
