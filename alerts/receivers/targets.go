package receivers

import (
	"fmt"
	"log/slog"
	"net/http"
	"reflect"

	"github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/alertmanager/notify/discord"
	"github.com/prometheus/alertmanager/notify/incidentio"
	"github.com/prometheus/alertmanager/notify/jira"
	"github.com/prometheus/alertmanager/notify/mattermost"
	"github.com/prometheus/alertmanager/notify/msteams"
	"github.com/prometheus/alertmanager/notify/msteamsv2"
	"github.com/prometheus/alertmanager/notify/opsgenie"
	"github.com/prometheus/alertmanager/notify/pagerduty"
	"github.com/prometheus/alertmanager/notify/pushover"
	"github.com/prometheus/alertmanager/notify/rocketchat"
	"github.com/prometheus/alertmanager/notify/slack"
	"github.com/prometheus/alertmanager/notify/telegram"
	"github.com/prometheus/alertmanager/notify/victorops"
	"github.com/prometheus/alertmanager/notify/webex"
	"github.com/prometheus/alertmanager/notify/webhook"
	"github.com/prometheus/alertmanager/notify/wechat"
	"github.com/prometheus/alertmanager/template"
	commoncfg "github.com/prometheus/common/config"
)

// target is one integration of a receiver, such as its second webhook.
type target struct {
	name     string // receiver/webhook[1]
	kind     string
	resolved bool // it is notified that an alert has resolved
	notifier notify.Notifier
	show     escape
	client   *http.Client // nil for email

	format, base string // of a webhook that takes events: one of formats, and the URL of the status page
}

// quiet is the log of Alertmanager's library, whose errors come back as values.
var quiet = slog.New(slog.DiscardHandler)

// newTargets makes the integrations of all receivers, by receiver. It connects to nothing.
func newTargets(c *config.Config, t *template.Template) (map[string][]*target, error) {
	out := map[string][]*target{}
	for i := range c.Receivers {
		r := &c.Receivers[i]
		b := builder{receiver: r.Name}
		if t != nil {
			b.base = t.ExternalURL.String()
		}
		add(&b, "webhook", r.WebhookConfigs, func(c *webhook.WebhookConfig) (notify.Notifier, error) {
			return webhook.New(c, t, quiet)
		})
		add(&b, "email", r.EmailConfigs, func(c *config.EmailConfig) (notify.Notifier, error) { return newMailer(c, t), nil })
		add(&b, "slack", r.SlackConfigs, func(c *config.SlackConfig) (notify.Notifier, error) {
			return slack.New(c, t, quiet)
		})
		add(&b, "pagerduty", r.PagerdutyConfigs, func(c *pagerduty.PagerdutyConfig) (notify.Notifier, error) {
			return pagerduty.New(c, t, quiet)
		})
		add(&b, "opsgenie", r.OpsGenieConfigs, func(c *opsgenie.OpsGenieConfig) (notify.Notifier, error) {
			return opsgenie.New(c, t, quiet)
		})
		add(&b, "telegram", r.TelegramConfigs, func(c *telegram.TelegramConfig) (notify.Notifier, error) {
			return telegram.New(c, t, quiet)
		})
		add(&b, "msteams", r.MSTeamsConfigs, func(c *msteams.MSTeamsConfig) (notify.Notifier, error) {
			return msteams.New(c, t, quiet)
		})
		add(&b, "msteamsv2", r.MSTeamsV2Configs, func(c *msteamsv2.MSTeamsV2Config) (notify.Notifier, error) {
			return msteamsv2.New(c, t, quiet)
		})
		add(&b, "discord", r.DiscordConfigs, func(c *discord.DiscordConfig) (notify.Notifier, error) {
			return discord.New(c, t, quiet)
		})
		add(&b, "mattermost", r.MattermostConfigs, func(c *mattermost.MattermostConfig) (notify.Notifier, error) {
			return mattermost.New(c, t, quiet)
		})
		add(&b, "rocketchat", r.RocketchatConfigs, func(c *config.RocketchatConfig) (notify.Notifier, error) {
			return rocketchat.New(c, t, quiet)
		})
		add(&b, "webex", r.WebexConfigs, func(c *config.WebexConfig) (notify.Notifier, error) {
			return webex.New(c, t, quiet)
		})
		add(&b, "pushover", r.PushoverConfigs, func(c *config.PushoverConfig) (notify.Notifier, error) {
			return pushover.New(c, t, quiet)
		})
		add(&b, "victorops", r.VictorOpsConfigs, func(c *config.VictorOpsConfig) (notify.Notifier, error) {
			return victorops.New(c, t, quiet)
		})
		add(&b, "incidentio", r.IncidentioConfigs, func(c *incidentio.IncidentioConfig) (notify.Notifier, error) {
			return incidentio.New(c, t, quiet)
		})
		add(&b, "jira", r.JiraConfigs, func(c *jira.JiraConfig) (notify.Notifier, error) { return jira.New(c, t, quiet) })
		add(&b, "wechat", r.WechatConfigs, func(c *config.WechatConfig) (notify.Notifier, error) {
			return wechat.New(c, t, quiet)
		})
		if b.err != nil {
			return nil, b.err
		}
		out[r.Name] = b.targets
	}
	return out, nil
}

type builder struct {
	receiver string
	base     string
	targets  []*target
	err      error // the first
}

func add[C notify.ResolvedSender](b *builder, kind string, configs []C, make func(C) (notify.Notifier, error)) {
	for i, c := range configs {
		t := &target{name: fmt.Sprintf("%s/%s[%d]", b.receiver, kind, i), kind: kind, resolved: c.SendResolved(),
			show: escapeFor(kind, c), format: takeFormat(c), base: b.base}
		refuseRedirects(c)
		var err error
		if t.notifier, err = make(c); err == nil {
			t.client = clientOf(t.notifier)
			watch(t.client)
			if t.format != "" {
				t.client.Transport = &envelope{t.client.Transport, t.format}
			}
		} else if b.err == nil {
			b.err = fmt.Errorf("%s: %w", t.name, err)
		}
		b.targets = append(b.targets, t)
	}
}

// refuseRedirects keeps the client from turning a POST into a GET elsewhere, whose 200 would look like a delivery. The
// settings of the client may be shared with other receivers.
func refuseRedirects(c any) {
	f := reflect.ValueOf(c).Elem().FieldByName("HTTPConfig")
	if !f.IsValid() || f.IsNil() {
		return
	}
	if shared, ok := f.Interface().(*commoncfg.HTTPClientConfig); ok {
		own := *shared
		own.FollowRedirects = false
		f.Set(reflect.ValueOf(&own))
	}
}

// clientOf finds the HTTP client of a notifier, whose package does not give it away; nil if it has none.
func clientOf(n notify.Notifier) *http.Client {
	f := reflect.ValueOf(n).Elem().FieldByName("client")
	if !f.IsValid() || f.Kind() != reflect.Pointer {
		return nil
	}
	if f.Type() == reflect.TypeFor[*http.Client]() {
		return (*http.Client)(f.UnsafePointer())
	}
	if f = f.Elem().FieldByName("client"); f.IsValid() && f.Type() == reflect.TypeFor[*http.Client]() { // telebot's
		return (*http.Client)(f.UnsafePointer())
	}
	return nil
}
