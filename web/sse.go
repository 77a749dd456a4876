package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/internal/every"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/web/site"
)

// Times of the event streams.
const (
	streamPoll  = time.Second      // how often Run looks for a new report
	streamBeat  = 15 * time.Second // a comment, so that proxies and tabs know that the stream lives
	streamCheck = 2 * time.Second  // how often the permission is checked
	streamWrite = 10 * time.Second // a tab that takes no bytes for this long is gone
	streamLife  = time.Hour        // then the tab connects again
	streamRetry = 3 * time.Second  // after which a tab connects again
)

// streamMetrics count the event streams.
type streamMetrics struct {
	open                     *metrics.Gauge
	opened, refused, dropped *metrics.Counter
}

func newStreamMetrics(set *metrics.Set, open func() float64) *streamMetrics {
	return &streamMetrics{
		open:    metric.WebStreams.Read(set, open),
		opened:  metric.WebStreamsTotal.Counter(set, "opened"),
		refused: metric.WebStreamsTotal.Counter(set, "refused"),
		dropped: metric.WebStreamsTotal.Counter(set, "dropped"),
	}
}

// Run tells every open page of each new report and each change of the engine's state, until ctx ends. It then closes
// the event streams, so that a server's Shutdown does not wait for them. It checks once a second, and does nothing
// while no page is open except sample the ingest counters every 5 seconds. Without Run, pages refresh by polling. The
// error is always nil.
func (w *Web) Run(ctx context.Context) error {
	w.streams.start()
	defer w.streams.stop()
	for range every.Later(ctx, streamPoll) {
		w.engine.sampleRates()
		if w.streams.count() > 0 {
			w.streams.publish(message(w.View()))
		}
	}
	return nil
}

// message is the event that carries the view's version, never its content: every tab fetches the page that it shows.
func message(v site.View) string {
	var version uint64
	if v.Rep != nil {
		version = v.Rep.Version
	}
	return fmt.Sprintf("event: report\ndata: {\"version\":%d,\"key\":%q}\n\n", version, v.Key())
}

// stream answers with server-sent events: the present version at once, then one
// event for every new one.
func (w *Web) stream(c *gin.Context) {
	h := c.Writer.Header()
	h.Set("Cache-Control", "no-store")
	sub, err := w.streams.join()
	if err != nil {
		w.streamStats.refused.Inc()
		h.Set("Retry-After", "10")
		c.Data(http.StatusServiceUnavailable, "text/plain; charset=utf-8", []byte(err.Error()+"\n"))
		return
	}
	defer w.streams.leave(sub)
	w.streamStats.opened.Inc()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	c.Status(http.StatusOK)
	if c.Request.Method == http.MethodHead {
		return
	}
	ctl := http.NewResponseController(c.Writer)
	write := func(text string) bool {
		if err := ctl.SetWriteDeadline(time.Now().Add(streamWrite)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return false
		}
		if _, err := c.Writer.WriteString(text); err != nil {
			return false
		}
		ok := ctl.Flush() == nil
		_ = ctl.SetWriteDeadline(time.Time{}) // with HTTP/2 it would end a stream that has nothing to say
		return ok
	}
	// Joined first, so that no report falls between this message and the next.
	if !write("retry: " + strconv.FormatInt(streamRetry.Milliseconds(), 10) + "\n" + message(w.View())) {
		return
	}
	beat, check, life := time.NewTicker(streamBeat), time.NewTicker(streamCheck), time.NewTimer(streamLife)
	defer beat.Stop()
	defer check.Stop()
	defer life.Stop()
	for {
		text := ":\n\n"
		select {
		case <-c.Request.Context().Done():
			return
		case <-life.C:
			return
		case m, ok := <-sub.messages:
			if !ok {
				if sub.slow {
					w.streamStats.dropped.Inc()
				}
				return
			}
			if text = m; w.Opt.Scope != "" {
				text = message(w.View()) // whose key is another one
			}
		case <-check.C:
			if !w.Opt.May(c, site.Read) {
				return // the token was revoked, or has expired
			}
			continue
		case <-beat.C:
		}
		if !write(text) {
			return
		}
	}
}
