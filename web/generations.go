package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// forgetTime bounds how long a request waits for the record.
const forgetTime = 30 * time.Second

type generationList struct {
	status.ParkedStatus
	Items []status.Generation `json:"items"`
}

func (w *Web) apiGenerations(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	if w.Opt.Generations == nil {
		respond.Problem(c, http.StatusNotImplemented, "This engine does not tell what it counts.", nil)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), forgetTime)
	defer cancel()
	list, err := w.Opt.Generations(ctx)
	if err != nil {
		respond.Problem(c, http.StatusServiceUnavailable, "What is counted is not known now: "+err.Error()+".", nil)
		return
	}
	respond.JSON(c, http.StatusOK, "application/json", generationList{w.Opt.Engine().Parked, append([]status.Generation{}, list...)})
}

func (w *Web) apiForget(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	if w.Opt.Forget == nil {
		respond.Problem(c, http.StatusNotImplemented, "This engine cannot forget counts.", nil)
		return
	}
	body, ok := w.JSONBody(c)
	if !ok {
		return
	}
	var r status.ForgetRequest
	err := site.ReadObject(body, map[string]func(json.RawMessage) error{
		"service": func(raw json.RawMessage) error { return site.ReadValue(raw, &r.Service, "the name of a service") },
		"restart": func(raw json.RawMessage) error { return site.ReadValue(raw, &r.Restart, "true or false") },
	})
	if err == nil && r.Service == "" {
		err = errors.New("service is missing")
	}
	if err != nil {
		respond.Problem(c, http.StatusBadRequest, "body: "+err.Error(), nil)
		return
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), forgetTime)
	defer cancel()
	done, err := w.Opt.Forget(ctx, r)
	detail := fmt.Sprintf("service=%s restart=%t parked=%d restarted=%d", strconv.QuoteToASCII(r.Service), r.Restart, done.Parked, done.Restarted)
	if err != nil {
		detail += " error=" + strconv.QuoteToASCII(err.Error())
	}
	w.Opt.Audit(c, "forget", detail)
	switch {
	case errors.Is(err, status.ErrNothingCounted):
		respond.Problem(c, http.StatusNotFound, "Nothing was done: "+err.Error()+".", nil)
	case errors.Is(err, status.ErrServiceInUse), errors.Is(err, status.ErrSpecChanged):
		respond.Problem(c, http.StatusConflict, "Nothing was done: "+err.Error()+".", nil)
	case err != nil:
		respond.Problem(c, http.StatusServiceUnavailable, "It is not known whether anything was forgotten: "+err.Error()+".", nil)
	default:
		respond.JSON(c, http.StatusOK, "application/json", done)
	}
}

// parkedPart is what the engine's page shows of parked generations.
type parkedPart struct {
	Text string
	Rows []parkedRow
	More int
}

type parkedRow struct {
	Name      string
	Groups    string
	At, Until format.Stamp
	Size      string
}

// shownParked is how many parked generations the page lists.
const shownParked = 50

func (w *Web) parkedPart(v site.View) *parkedPart {
	if w.Opt.Parked == nil {
		return nil
	}
	list := w.Opt.Parked()
	p := &parkedPart{Text: fmt.Sprintf("%s of %s", format.Bytes(v.Eng.Parked.Bytes), format.Bytes(v.Eng.Parked.LimitBytes))}
	for i := range list {
		g := &list[len(list)-1-i] // the newest first
		if i == shownParked {
			p.More = len(list) - i
			break
		}
		p.Rows = append(p.Rows, parkedRow{format.Safe(g.ID, format.MaxTitle), format.Count(g.Groups), format.NewStamp(g.Parked, v.Now), format.NewStamp(g.Until, v.Now), format.Bytes(g.Bytes)})
	}
	return p
}

// changeFacts say what the last change of the spec did.
func changeFacts(s *status.SpecChange, now time.Time) []site.Fact {
	if s == nil {
		return nil
	}
	f := []site.Fact{{Name: "Last change of what is counted", Value: format.Ago(s.At, now), At: format.NewStamp(s.At, now)}}
	add := func(name string, ids []string) {
		if len(ids) > 0 {
			f = append(f, site.Fact{Name: name, Value: format.Count(len(ids)), Note: idText(ids)})
		}
	}
	add("Started from zero", s.Started)
	add("Resumed", s.Resumed)
	var removed []string
	for _, p := range s.Parked {
		if p.Removed {
			removed = append(removed, p.ID)
		}
	}
	add("Removed", removed)
	return f
}

// idText lists the first few IDs.
func idText(ids []string) string {
	const most = 5
	text := ""
	for i, id := range ids {
		if i == most {
			return text + fmt.Sprintf(" and %d more", len(ids)-i)
		}
		if i > 0 {
			text += ", "
		}
		text += format.Safe(id, format.MaxTitle)
	}
	return text
}
