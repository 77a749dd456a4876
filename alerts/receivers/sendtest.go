package receivers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	amalert "github.com/prometheus/alertmanager/alert"
	amnotify "github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/common/model"

	"github.com/sloengine/sloengine/alerts/notify"
)

// SendTest sends one alert through all integrations of a receiver, side by side and without retries. Nothing is saved,
// so o.File may be empty. The error is about the settings.
func SendTest(ctx context.Context, o Options, receiver string, labels, annotations map[string]string,
	starts time.Time) ([]notify.Result, error) {
	o.applyDefaults()
	p, err := newPlan(o.Settings, &previews{}, o.Now)
	if err != nil {
		return nil, fmt.Errorf("notifications: %w", err)
	}
	targets, ok := p.targets[receiver]
	if !ok {
		names := strings.Join(slices.Sorted(maps.Keys(p.targets)), ", ")
		return nil, fmt.Errorf("%w %q (want one of: %s)", ErrUnknownReceiver, receiver, names)
	}
	a := &amalert.Alert{UpdatedAt: starts}
	a.Labels, a.Annotations, a.StartsAt = labelSet(labels, o.Settings.ExternalLabels), labelSet(annotations, nil), starts
	m := &message{
		key: "{}/test:" + a.Labels.String(), receiver: receiver, labels: model.LabelSet{"alertname": a.Labels["alertname"]},
		repeat: time.Hour, alerts: []*amalert.Alert{a}, reason: amnotify.ReasonFirstNotification,
	}
	out := make([]notify.Result, len(targets))
	var all sync.WaitGroup
	for i, t := range targets {
		all.Go(func() {
			began := o.Now()
			l := newSendLane(t, p.settings.Timeout, o.Now)
			out[i] = notify.Result{Name: t.name, Err: l.send(ctx, m)}
			out[i].Took = o.Now().Sub(began)
			if t.client != nil {
				t.client.CloseIdleConnections()
			}
		})
	}
	all.Wait()
	return out, nil
}

// labelSet joins labels, of which the first win.
func labelSet(own, external map[string]string) model.LabelSet {
	out := model.LabelSet{}
	for _, m := range []map[string]string{external, own} {
		for name, value := range m {
			out[model.LabelName(name)] = model.LabelValue(value)
		}
	}
	return out
}
