package receivers

import (
	"context"
	"slices"
	"sync"
	"time"

	amalert "github.com/prometheus/alertmanager/alert"
	amnotify "github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/alertmanager/template"

	"github.com/sloengine/sloengine/alerts/notify"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/rules/series"
)

// shownPreviews is how many messages are retained in memory. Each has at most 8,000 bytes of text, see the templates.
const shownPreviews = 100

// previews are the last messages of all receivers, as their people would read them. They end with the process.
type previews struct {
	mu   sync.Mutex
	list []notify.Preview // the oldest first
}

func (p *previews) add(m notify.Preview) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) >= shownPreviews {
		p.list = slices.Delete(p.list, 0, len(p.list)-shownPreviews+1)
	}
	p.list = append(p.list, m)
}

// Previews lists the last messages, the newest first. It is false without Settings.Preview.
func (d *Dispatcher) Previews() ([]notify.Preview, bool) {
	d.mu.Lock()
	on := d.plan.root != nil && d.plan.settings.Preview
	d.mu.Unlock()
	d.previews.mu.Lock()
	defer d.previews.mu.Unlock()
	out := slices.Clone(d.previews.list)
	slices.Reverse(out)
	return out, on
}

// previewer is the integration of a receiver that writes to previews in place of a network.
type previewer struct {
	to        *previews
	templates *template.Template
	now       func() time.Time
}

func newPreview(receiver string, to *previews, t *template.Template, now func() time.Time) *target {
	return &target{name: receiver + "/preview[0]", kind: "preview", resolved: true, notifier: &previewer{to, t, now},
		show: func(value string) string { return remote.Shorten(remote.OneLine(value), maxValue) }}
}

// Notify implements Alertmanager's notify.Notifier.
func (p *previewer) Notify(ctx context.Context, alerts ...*amalert.Alert) (retry bool, err error) {
	receiver, _ := amnotify.ReceiverName(ctx)
	data := amnotify.GetTemplateData(ctx, p.templates, alerts, quiet)
	text := amnotify.TmplText(p.templates, data, &err)
	m := notify.Preview{At: p.now(), Receiver: receiver, Resolved: len(data.Alerts.Firing()) == 0,
		Subject: text(`{{ template "__subject" . }}`), Text: text(`{{ template "__text_alert_list" .Alerts }}`)}
	for _, a := range alerts {
		if service := string(a.Labels[series.LabelService]); !slices.Contains(m.Services, service) {
			m.Services = append(m.Services, service)
		}
	}
	if err == nil {
		p.to.add(m)
	}
	return false, err
}
