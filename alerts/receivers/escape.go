package receivers

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"
	"unicode"

	"github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/notify/telegram"
	"github.com/prometheus/alertmanager/template"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/rules/series"
)

// escape makes a value that came with an event fit for the texts of one kind of receiver: one line, short, and without
// markup. Who sends events must not be able to add a link, a mention or a line to a message.
type escape func(value string) string

// maxValue is how many characters of a value a message shows.
const maxValue = 100

// escapeFor is that of a kind of receiver; nil for a webhook, whose program gets the values as they are. c are its
// settings.
func escapeFor(kind string, c any) escape {
	format := ""
	switch c := c.(type) {
	case *telegram.TelegramConfig:
		format = c.ParseMode
	case *config.WechatConfig:
		format = c.MessageType
	}
	switch {
	case kind == "webhook":
		return nil
	case kind == "slack":
		return harmless(slackEntities)
	case slices.Contains(markdownKinds, kind) || strings.HasPrefix(strings.ToLower(format), "markdown"):
		return harmless(markdown)
	}
	return harmless(noTags)
}

var markdownKinds = []string{"mattermost", "rocketchat", "webex", "msteams", "msteamsv2", "discord"}

// nothing is a space without width. It breaks what a service would make a link or a mention.
const nothing = "\u200b"

// Replacers for the places where values are shown. Services of the same format differ in what they take as escaped, so
// a link is broken in more ways than one.
var (
	noTags        = strings.NewReplacer("<", "‹", ">", "›", "@", "@"+nothing, "://", ":"+nothing+"//")
	slackEntities = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@"+nothing, "://", ":"+nothing+"//")
	markdown      = strings.NewReplacer("<", "‹", ">", "›", "@", "@"+nothing, "://", ":"+nothing+"//",
		"](", "\\]"+nothing+"(",
		`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "~", `\~`, "|", `\|`, "[", `\[`, "]", `\]`)
)

func harmless(r *strings.Replacer) escape {
	return func(value string) string {
		value = remote.Shorten(remote.OneLine(value), maxValue)
		out := r.Replace(value)
		if strings.ContainsFunc(value, rightToLeft) { // or it would turn the text around it
			out = "\u2068" + out + "\u2069"
		}
		return out
	}
}

func rightToLeft(r rune) bool {
	return unicode.In(r, unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko, unicode.Adlam)
}

// maxTexts bounds the annotations of an alert, in characters.
var maxTexts = map[string]int{"summary": 250, "description": 1000}

// maxListed is how many alerts a message tells of.
const maxListed = 20

// cost is how long a text may become: bytes, in HTML.
func cost(s string) int { return max(len(s), len(html.EscapeString(s))) }

// alertList tells of the first alerts, as many as there is room for.
func alertList(room int, list template.Alerts) string {
	var out strings.Builder
	for i, a := range list {
		text := alertLines(a, room)
		if i == maxListed || i > 0 && cost(text) > room {
			fmt.Fprintf(&out, "and more, %d alerts in all\n", len(list))
			break
		}
		room -= cost(text)
		out.WriteString(text)
	}
	return out.String()
}

// failingTraces is the line with links to traces.
const failingTraces = "Failing traces"

// alertLines tells of one alert. If room is short, texts are cut, and links are left out.
func alertLines(a template.Alert, room int) string {
	resolved, ack, traces := "", a.Annotations["acknowledge"], a.Annotations[state.AnnotationTraces]
	if a.Status == "resolved" {
		resolved, ack, traces = "Resolved: ", "", ""
	}
	var out strings.Builder
	for _, text := range []string{resolved + cmp.Or(a.Annotations["summary"], a.Labels["alertname"]),
		a.Annotations["description"]} {
		for most := len(text); cost(text)+1 > room/2 && most > 0; most -= 1 + most/8 {
			text = remote.Shorten(text, most)
		}
		if text != "" {
			room -= cost(text) + 1
			out.WriteString(text + "\n")
		}
	}
	for _, line := range [][2]string{
		{"Impact", a.Labels[series.LabelImpact]},
		{"Why", a.Annotations[state.AnnotationWhy]}, {"Forecast", a.Annotations[alerts.AnnotationForecast]},
		{"Also affected", a.Annotations["affected"]},
		{"Incident", a.Annotations["incident"]}, {"Acknowledge", ack},
		{"Runbook", a.Annotations["runbook_url"]}, {"Alert", a.Annotations["alert"]},
		{"Status page", a.Annotations["page"]}, {"Dashboard", a.Annotations["dashboard"]},
		{failingTraces, traces},
	} {
		for line[0] == failingTraces && line[1] != "" && cost(line[0]+": "+line[1]+"\n") >= room { // the last is the oldest
			line[1] = line[1][:max(0, strings.LastIndexByte(line[1], ' '))]
		}
		if text := line[0] + ": " + line[1] + "\n"; line[1] != "" && cost(text) < room {
			room -= cost(text)
			out.WriteString(text)
		}
	}
	return out.String() + "\n"
}
