package outlook

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/sla/history"
)

// DefaultGroups is how many groups are forecast if the settings do not say.
const DefaultGroups = 1000

// Options configure a Keeper. Counts is required.
type Options struct {
	Counts history.CountsFunc
	Groups int     // that are forecast at most; 0 = DefaultGroups
	File   string  // keeps the score over restarts; "" keeps it in memory
	Files  fsys.FS // default: the operating system's

	Now func() time.Time // measures how long forecasts take; default time.Now

	Metrics *Metrics     // default: unregistered
	Logger  *slog.Logger // default: none
}

func (o *Options) applyDefaults() error {
	if o.Counts == nil {
		return errors.New("outlook: Counts is required")
	}
	if o.Groups < 0 {
		return fmt.Errorf("outlook: %d groups: want 0 or more", o.Groups)
	}
	if o.Groups == 0 {
		o.Groups = DefaultGroups
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Files = cmp.Or(o.Files, fsys.OS())
	o.Metrics = cmp.Or(o.Metrics, NewMetrics(metrics.NewSet()))
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return nil
}
