package client

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MiddlewareOptions say what the middleware tells about a request. The zero value is fine.
type MiddlewareOptions struct {
	Service string // default: the client's
	Type    string // default "request"
	// Skip leaves requests out: health checks, say. It may be nil.
	Skip func(*http.Request) bool
	// Failed judges a request by the status of its answer. Default: 500 and above.
	Failed func(status int) bool
	// Event may change the event before it is sent. The request must not be changed.
	// A panic in it is logged, and the event is sent as it is then. It may be nil.
	Event func(*Event, *http.Request)
}

// Middleware emits one event for each request that a handler has served: its route
// (the pattern of http.ServeMux), method and status as attributes, its duration, and a
// failure if the status is 500 or above or the handler panicked. A panic goes on.
//
// Events are queued as by SendAsync, so the handler is neither held up nor failed.
//
// The attribute route is Request.Pattern without the method. A ServeMux sets it, be it
// inside or outside the middleware; if the request was copied between the two
// (Request.WithContext), put the middleware inside. It is missing if no route matched.
// Paths are never taken, since there is no end of them. A connection that the handler
// hijacked has no status and no duration.
func Middleware(c *Client, o MiddlewareOptions) func(http.Handler) http.Handler {
	o.Type = cmp.Or(o.Type, "request")
	if o.Failed == nil {
		o.Failed = func(status int) bool { return status >= http.StatusInternalServerError }
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if o.Skip != nil && o.Skip(r) {
				next.ServeHTTP(w, r)
				return
			}
			began := time.Now()
			rec := &recorder{ResponseWriter: w}
			returned := false
			defer func() {
				// A panic that only ends the answer to a client that has gone is none of
				// the handler's fault.
				p := recover()
				err, _ := p.(error)
				gone := errors.Is(err, http.ErrAbortHandler) && r.Context().Err() != nil
				c.served(&o, r, rec, began, !returned && !gone)
				if p != nil {
					panic(p)
				}
			}()
			next.ServeHTTP(rec, r)
			returned = true
		})
	}
}

// served queues the event of one request.
func (c *Client) served(o *MiddlewareOptions, r *http.Request, rec *recorder, began time.Time, panicked bool) {
	e := Event{Service: o.Service, Type: o.Type, Attributes: make([]Attr, 0, 4)}
	e.Attributes = append(e.Attributes, Attr{Name: "method", Value: method(r.Method)})
	if route := route(r.Pattern); route != "" {
		e.Attributes = append(e.Attributes, Attr{Name: "route", Value: route})
	}
	if !rec.hijacked {
		e.Duration, e.HasDuration = time.Since(began), true
		status := rec.status
		switch {
		case status != 0:
		case panicked:
			status = http.StatusInternalServerError // never sent: the connection is cut
		default:
			status = http.StatusOK
		}
		if o.Failed(status) {
			e.Outcome = Failed
		}
		e.Attributes = append(e.Attributes, Attr{Name: "status", Value: strconv.Itoa(status)})
	}
	if panicked {
		e.Outcome = Failed
	}
	if o.Event != nil {
		c.amend(o, &e, r)
	}
	c.enqueue(&e, FromMiddleware)
}

func (c *Client) amend(o *MiddlewareOptions, e *Event, r *http.Request) {
	defer func() {
		if p := recover(); p != nil {
			c.o.Logger.Error("MiddlewareOptions.Event panicked", "panic", p)
		}
	}()
	o.Event(e, r)
}

// method keeps made-up methods from becoming values of an attribute.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return m
	}
	return "other"
}

// route is a pattern of http.ServeMux without its method.
func route(pattern string) string {
	if i := strings.IndexAny(pattern, " \t"); i >= 0 {
		return strings.TrimLeft(pattern[i:], " \t")
	}
	return pattern
}
