package receivers

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	amalert "github.com/prometheus/alertmanager/alert"
	amnotify "github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
)

func plainAlert() *amalert.Alert {
	a := &amalert.Alert{}
	a.Labels = model.LabelSet{"alertname": "Burn", "service": "shop"}
	a.StartsAt = time.Now()
	return a
}

// outcomes is the classification of answers. The page about notifications has the same table.
var outcomes = []struct {
	answer string
	status int
	body   string
	want   outcome
}{
	{"no connection", 0, "", unreachable},
	{"502", 502, "", unreachable},
	{"503", 503, "", unreachable},
	{"504", 504, "", unreachable},
	{"408", 408, "", again},
	{"425", 425, "", again},
	{"500", 500, "", again},
	{"507", 507, "", again},
	{"429", 429, "", limited},
	{"400", 400, "", refused},
	{"409", 409, "", refused},
	{"410", 410, "", refused},
	{"413", 413, "", refused},
	{"414", 414, "", refused},
	{"422", 422, "", refused},
	{"501", 501, "", refused},
	{"302", 302, "", blocked},
	{"401", 401, "", blocked},
	{"403", 403, "", blocked},
	{"404", 404, "", blocked},
	{"405", 405, "", blocked},
	{"407", 407, "", blocked},
}

// TestOutcomes gives every kind of receiver every answer.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for kind, x := range kinds(t) {
		p := newProvider(t, kind)
		lead(x, p)
		m := &message{key: "k", receiver: "all", labels: model.LabelSet{}, repeat: time.Hour,
			reason: amnotify.ReasonFirstNotification, alerts: []*amalert.Alert{plainAlert()}}
		for _, o := range outcomes {
			p.mu.Lock()
			p.answer = func(w http.ResponseWriter, r *http.Request) {
				if o.status == 0 {
					panic(http.ErrAbortHandler)
				}
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(o.status)
				_, _ = io.WriteString(w, `{"ok":false,"error_code":`+fmt.Sprint(o.status)+`,"description":"hush"}`)
			}
			p.mu.Unlock()
			err := x.send(t.Context(), m, time.Now())
			require.Error(t, err, "%s %s", kind, o.answer)
			require.Equal(t, o.want, outcomeOf(err), "%s %s: %v", kind, o.answer, err)
			require.NotContains(t, err.Error(), "x.example/hush", kind)
		}
		p.mu.Lock()
		p.answer = nil
		p.mu.Unlock()
		require.NoError(t, x.send(t.Context(), m, time.Now()), kind)
	}
}

// TestHangingTelegram ends the call to a service that never answers, although its library does not pass on the
// deadline.
func TestHangingTelegram(t *testing.T) {
	t.Parallel()
	x := kinds(t)["telegram"]
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	lead(x, &provider{Server: &httptest.Server{URL: "http://" + l.Addr().String()}})
	la := newSendLane(x, 50*time.Millisecond, time.Now)
	m := &message{key: "k", receiver: "all", alerts: []*amalert.Alert{plainAlert()},
		reason: amnotify.ReasonFirstNotification}
	require.Equal(t, unreachable, outcomeOf(la.send(t.Context(), m)))
	testkit.Eventually(t, "the call ends, too", func() bool { return len(la.hung) == 0 })
}

// TestOutcomesAreDocumented compares the page with the classification.
func TestOutcomesAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/notifications.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(page), "### What an answer means")
	rows := map[string]string{}
	for line := range strings.SplitSeq(table, "\n") {
		if cells := strings.Split(line, " | "); len(cells) == 4 {
			rows[strings.TrimPrefix(cells[0], "| ")] = cells[1]
		}
	}
	names := map[outcome]string{unreachable: "unreachable", again: "again", limited: "limited",
		refused: "refused", blocked: "blocked"}
	for _, o := range outcomes {
		require.Contains(t, rows[names[o.want]], o.answer)
	}
	for code, want := range smtpCodes {
		require.Regexp(t, "SMTP.* ?"+fmt.Sprint(code), rows[names[want]])
	}
}
