package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/health"
	"github.com/sloengine/sloengine/reliability/mail"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/sla/report"
)

// Kind is the way to a target.
type Kind string

// The kinds, in the order in which they are served: what is fast goes first.
const (
	ToFolder  Kind = "folder"
	ToWebhook Kind = "webhook"
	ToMail    Kind = "email"
)

// maxAttachment is how large a file in a mail may be. Mail servers refuse larger ones.
const maxAttachment = 10 << 20

// target is one address that one report goes to. The goroutine that sends owns it.
type target struct {
	report *Report
	kind   Kind
	name   string // for people: an address, host or folder
	id     string // of what is known of it
	key    string // in the state file

	address string        // of a mail
	server  *mail.Server  // of a mail
	webhook Webhook       // of a webhook
	timeout time.Duration // of a webhook
	next    time.Time     // of the next attempt, after a failure
	wait    time.Duration // before it

	failing *health.Tracker
}

// targets are those of all reports.
func (s *Settings) targets() []*target {
	var out []*target
	add := func(t target, parts ...string) {
		t.id = fingerprint(append([]string{string(t.kind)}, parts...)...)
		t.key = t.report.Name + "/" + string(t.report.Every) + "/" + string(t.kind) + "/" + t.id
		out = append(out, &t)
	}
	for _, kind := range []Kind{ToFolder, ToWebhook, ToMail} {
		for i := range s.Reports {
			r := &s.Reports[i]
			switch kind {
			case ToFolder:
				if r.Folder != "" {
					add(target{report: r, kind: kind, name: r.Folder}, r.Folder)
				}
			case ToWebhook:
				for _, w := range r.Webhooks {
					host := ""
					if u, err := url.Parse(w.URL); err == nil {
						host = u.Host
					}
					add(target{report: r, kind: kind, name: host, webhook: w, timeout: s.Timeout}, w.URL)
				}
			case ToMail:
				for _, a := range r.Mail {
					add(target{report: r, kind: kind, name: a, address: a, server: s.Server}, a)
				}
			}
		}
	}
	return out
}

// send delivers the report on a period.
func (t *target) send(ctx context.Context, files fsys.FS, instance string, p report.Period,
	now time.Time, c *Content) error {
	switch t.kind {
	case ToFolder:
		return t.write(files, p, c)
	case ToWebhook:
		return t.post(ctx, instance, p, c)
	}
	return t.mail(ctx, instance, p, now, c)
}

// fileName is the name of a report in a folder or mail.
func fileName(r *Report, p report.Period, f Format) string {
	return r.Name + "-" + p.String() + "." + string(f)
}

// write writes a file for each format. A file that is written again is replaced.
func (t *target) write(files fsys.FS, p report.Period, c *Content) error {
	if err := files.MkdirAll(t.report.Folder); err != nil {
		return err
	}
	for _, f := range t.report.Formats {
		err := fsys.WriteAtomic(files, filepath.Join(t.report.Folder, fileName(t.report, p, f)), func(w io.Writer) error {
			_, err := w.Write(c.of(f))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// mail sends one mail. The same report has the same Message-ID, whenever it is sent, so that mail servers can tell.
func (t *target) mail(ctx context.Context, instance string, p report.Period, now time.Time, c *Content) error {
	domain := "sloengine.invalid"
	if _, after, ok := strings.Cut(strings.Trim(t.server.From, "<> "), "@"); ok {
		domain = strings.TrimRight(after, ">")
	}
	m := mail.Message{
		To: t.address, ID: fingerprint(instance, t.key, p.String()) + "." + t.report.Name + "." + p.String() + "@" + domain,
		Date: now, Subject: c.Subject, Text: c.Text,
	}
	for _, f := range t.report.Formats {
		switch data := c.of(f); {
		case f == HTML:
			m.HTML = c.HTML
		case len(data) > maxAttachment:
			m.Text += fmt.Sprintf("\n%s is not attached, since it has %d MiB.\n", fileName(t.report, p, f), len(data)>>20)
		default:
			typ, _, _ := strings.Cut(f.Type(), ";")
			m.Attachments = append(m.Attachments, mail.Attachment{Name: fileName(t.report, p, f), Type: typ, Data: data})
		}
	}
	return t.server.Send(ctx, m)
}

// webhookBody is what a webhook receives.
type webhookBody struct {
	Version int             `json:"version"`
	Name    string          `json:"name"`
	Period  string          `json:"period"`
	Subject string          `json:"subject"`
	Text    string          `json:"text"`
	HTML    string          `json:"html,omitempty"`
	CSV     string          `json:"csv,omitempty"`
	Report  json.RawMessage `json:"report"` // as GET /api/v1/report answers
}

func (t *target) post(ctx context.Context, instance string, p report.Period, c *Content) error {
	body := webhookBody{Version: 1, Name: t.report.Name, Period: p.String(), Subject: c.Subject,
		Text: c.Text, Report: c.JSON}
	if t.report.has(HTML) {
		body.HTML = c.HTML
	}
	if t.report.has(CSV) {
		body.CSV = string(c.CSV)
	}
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.webhook.URL, bytes.NewReader(data))
	if err != nil {
		return retry.WithClass(errors.New("invalid URL"), retry.ClassBlocked)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "sloengine")
	req.Header.Set("Idempotency-Key", fingerprint(instance, t.key, p.String()))
	if t.webhook.Token != nil {
		token, err := t.webhook.Token()
		if err != nil {
			return retry.WithClass(fmt.Errorf("read token: %w", err), retry.ClassBlocked)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	_, err = remote.Post(remote.Client(), req)
	return err
}

// brief is an error without what others wrote.
func brief(err error) string {
	var with interface{ Brief() string }
	if errors.As(err, &with) {
		return with.Brief()
	}
	switch {
	case fsys.Classify(err) == fsys.NoSpace:
		return "no space left"
	case errors.Is(err, context.DeadlineExceeded), retry.ClassOf(err) == retry.ClassTimeout:
		return "no answer in time"
	case retry.ClassOf(err) == retry.ClassTransient:
		return "no connection"
	case retry.ClassOf(err) == retry.ClassBlocked:
		return "its token cannot be read"
	}
	return "it cannot be written"
}
