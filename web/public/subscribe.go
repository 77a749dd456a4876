package public

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/reliability/subscription"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// SubscriptionsPath adds a subscription. Below it /delete ends one.
const SubscriptionsPath = "/public/subscriptions"

// changesEvery is how often the incidents are compared although the book has not changed, since a reload can hide some.
const changesEvery = time.Minute

type (
	// Subscribed answers a webhook that confirmed.
	Subscribed struct {
		Token string `json:"token"`
	}
	// Change is the body that subscribed webhooks receive.
	Change struct {
		Page     SummaryPage     `json:"page"`
		Incident SummaryIncident `json:"incident"`
	}
)

// newChanges are the incidents for subscribers. Components change with each report, so their state is no change.
func newChanges(all *Summary) (out []subscription.Item, err error) {
	for i := range all.Incidents {
		x := all.Incidents[i]
		body, err := json.Marshal(Change{all.Page, x})
		x.Components = nil
		known, failed := json.Marshal(x)
		if err := errors.Join(err, failed); err != nil {
			return nil, fmt.Errorf("encode an incident for subscribers: %w", err)
		}
		out = append(out, subscription.Item{ID: x.ID, Version: respond.Hash(string(known)), Body: body})
	}
	return out, nil
}

// Changes are the public incidents. False means that they are not known, or that none has changed.
func (pub *Handler) Changes(ctx context.Context) ([]subscription.Item, bool) {
	v := pub.View()
	book := pub.book(v)
	if v.Rep == nil || book == nil {
		return nil, false
	}
	p := &pub.published
	p.mu.Lock()
	same := p.sentBook == book && v.Now.Sub(p.sentAt).Abs() < changesEvery
	if !same {
		p.sentBook, p.sentAt = book, v.Now
	}
	p.mu.Unlock()
	if same {
		return nil, false
	}
	b, err := pub.public(ctx, v)
	if err != nil {
		pub.Opt.LogError("make the incidents for subscribers", err)
		return nil, false
	}
	return b.changes, true
}

// asked reads the body of a request about subscriptions, or sends a problem.
func (pub *Handler) asked(c *gin.Context, fields site.Fields) bool {
	c.Header("Cache-Control", "no-store")
	body, ok := pub.JSONBody(c) // refuses other sites
	if !ok {
		return false
	}
	if pub.Opt.Subscriptions == nil {
		pub.NotFound(c)
		return false
	}
	return site.ReadFields(c, body, fields)
}

func (pub *Handler) subscribe(c *gin.Context) {
	var to, secret string
	if !pub.asked(c, site.Fields{"url": site.String(&to), "secret": site.String(&secret)}) {
		return
	}
	client, _, err := net.SplitHostPort(c.Request.RemoteAddr)
	if err != nil {
		client = c.Request.RemoteAddr
	}
	token, err := pub.Opt.Subscriptions.Subscribe(c.Request.Context(), client, to, secret)
	if err != nil {
		subscriptionProblem(c, err)
		return
	}
	respond.JSON(c, http.StatusCreated, "application/json", Subscribed{token})
}

func (pub *Handler) unsubscribe(c *gin.Context) {
	var token string
	if !pub.asked(c, site.Fields{"token": site.String(&token)}) {
		return
	}
	if err := pub.Opt.Subscriptions.Unsubscribe(token); err != nil {
		subscriptionProblem(c, err)
		return
	}
	c.Status(http.StatusNoContent)
}

// subscriptionProblem answers with an error of the subscriptions and its remedy.
func subscriptionProblem(c *gin.Context, err error) {
	var invalid *subscription.InvalidError
	var unconfirmed *subscription.ConfirmError
	status, remedy := http.StatusServiceUnavailable, ""
	switch {
	case errors.As(err, &invalid):
		status = http.StatusBadRequest
	case errors.As(err, &unconfirmed):
		status = http.StatusUnprocessableEntity
	case errors.Is(err, subscription.ErrKnown):
		status = http.StatusConflict
	case errors.Is(err, subscription.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, subscription.ErrLimited):
		c.Header("Retry-After", "3600")
		status, remedy = http.StatusTooManyRequests, " (try again in an hour)"
	case errors.Is(err, subscription.ErrFull):
		remedy = " (read /public/summary.json instead)"
	default:
		c.Header("Retry-After", "10")
		remedy = " (try again in a moment)"
	}
	respond.Problem(c, status, err.Error()+remedy, nil)
}
