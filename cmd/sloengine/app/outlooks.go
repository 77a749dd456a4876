package app

import (
	"log/slog"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/sla/outlook"
)

// AnnotationsFile keeps the annotations.
const AnnotationsFile = "annotations.json"

// ForecastsFile keeps how well forecasts did.
const ForecastsFile = "forecasts.json"

// newOutlooks makes what forecasts, and what the evaluator calls to complete a report and when it has made one. The keeper is
// nil if the settings forecast nothing.
func newOutlooks(c *config.Config, counts history.CountsFunc, file string, set *metrics.Set, log *slog.Logger) (k *outlook.Keeper, complete, observe func(*sla.Report), err error) {
	if c.Forecast.Groups == 0 {
		nothing := func(*sla.Report) {}
		return nil, nothing, nothing, nil
	}
	k, err = outlook.New(outlook.Options{
		Counts: counts, Groups: c.Forecast.Groups, File: file, Metrics: outlook.NewMetrics(set), Logger: log,
	})
	if err != nil {
		return nil, nil, nil, err
	}
	return k, k.Complete, k.Observe, nil
}
