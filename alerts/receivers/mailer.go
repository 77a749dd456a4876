package receivers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"mime"
	netmail "net/mail"
	"slices"
	"strings"

	"github.com/prometheus/alertmanager/alert"
	"github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/alertmanager/notify/email"
	"github.com/prometheus/alertmanager/template"

	"github.com/sloengine/sloengine/reliability/mail"
	"github.com/sloengine/sloengine/reliability/remote"
)

// mailer sends mails by Alertmanager's library, with headers that every server accepts: the library writes a header of
// any length into one line.
type mailer struct {
	conf *config.EmailConfig
	tmpl *template.Template
}

func newMailer(c *config.EmailConfig, t *template.Template) *mailer {
	email.New(c, t, quiet) // gives c its default headers
	return &mailer{c, t}
}

// Notify implements notify.Notifier. The library encodes the values of headers and not their names, so folded headers
// go before the name of the last one.
func (m *mailer) Notify(ctx context.Context, alerts ...*alert.Alert) (bool, error) {
	data := notify.GetTemplateData(ctx, m.tmpl, alerts, quiet)
	own := *m.conf
	library := email.New(&own, m.tmpl, quiet)
	headers := map[string]string{}
	var folded string
	for _, name := range slices.Sorted(maps.Keys(m.conf.Headers)) {
		value, err := m.tmpl.ExecuteTextString(m.conf.Headers[name], data)
		if err != nil {
			return false, fmt.Errorf("execute %q header template: %w", name, err)
		}
		switch name {
		case last, "Message-Id":
			headers[name] = m.conf.Headers[name]
		case "From", "To", "Cc", "Bcc", "Reply-To", "Sender":
			folded += name + ": " + addresses(value) + "\r\n"
		default:
			folded += mail.Header(name, value) + "\r\n"
		}
	}
	headers[folded+last] = cmp.Or(headers[last], "auto-generated")
	delete(headers, last)
	own.Headers = headers
	return library.Notify(ctx, alerts...)
}

// last is the header behind the folded ones: mails of programs get no out-of-office replies (RFC 3834).
const last = "Auto-Submitted"

// addresses folds a list of addresses, of which none may be cut.
func addresses(value string) string {
	value = remote.OneLine(value)
	list, err := netmail.ParseAddressList(value)
	if err != nil {
		return mime.QEncoding.Encode("utf-8", value)
	}
	out := make([]string, len(list))
	for i, a := range list {
		if out[i] = a.Address; a.Name != "" {
			out[i] = a.String()
		}
	}
	return strings.Join(out, ",\r\n ")
}
