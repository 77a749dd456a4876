package rabbitmq

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// This file declares and verifies a topology. AMQP has no way to read the arguments of a queue. A second declaration
// with the same arguments changes nothing, and one with others is refused with the name and both values of the first
// argument that differs. Taking that value over and declaring again finds the next one.

// maxDifferences bounds how often one queue is declared again, each time on a channel of its own: the broker closes a
// channel on which a declaration failed.
const maxDifferences = 16

// channels opens channels: a connection.
type channels interface {
	Channel() (*amqp.Channel, error)
}

// try runs f on a channel of its own. An error that is about the request is the broker's *amqp.Error, after which only
// the channel is closed. Any other error is about the connection.
func try(c channels, f func(ch *amqp.Channel) error) (refused *amqp.Error, err error) {
	ch, err := c.Channel()
	if err != nil {
		return nil, fmt.Errorf("open channel: %w", err)
	}
	err = f(ch)
	if err == nil {
		return nil, ch.Close()
	}
	var e *amqp.Error
	if errors.As(err, &e) && e.Server && e.Recover {
		return e, nil
	}
	return nil, err
}

// inspect verifies the topology and, if the settings say so, declares the missing parts. Only an error of the
// connection is an error.
func (t *topology) inspect(c channels, now time.Time) (*Inspection, error) {
	out := &Inspection{At: now, Queues: []QueueState{}, Findings: []Finding{}}
	for i := range t.entities {
		e := &t.entities[i]
		var err error
		if e.kind == "exchange" {
			err = t.inspectExchange(c, e, out)
		} else {
			err = t.inspectQueue(c, e, out)
		}
		if err != nil {
			return nil, fmt.Errorf("verify %s %s: %w", e.kind, e.name, err)
		}
	}
	if !t.declare {
		return out, nil // AMQP cannot look at a binding without making it
	}
	for _, b := range t.bindings {
		refused, err := try(c, func(ch *amqp.Channel) error { return ch.QueueBind(b.queue, b.key, b.exchange, false, nil) })
		if err != nil {
			return nil, fmt.Errorf("bind queue %s to exchange %s: %w", b.queue, b.exchange, err)
		}
		if refused != nil && refused.Code != amqp.NotFound { // a missing part has its own finding
			out.Findings = append(out.Findings,
				Finding{Kind: "binding", Name: b.exchange + " to " + b.queue, Problem: Unverified, Detail: clip(refused.Reason)})
		}
	}
	return out, nil
}

func (t *topology) inspectExchange(c channels, e *entity, out *Inspection) error {
	refused, err := try(c, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(e.name, e.typ, true, false, false, false, nil)
	})
	if err != nil {
		return err
	}
	if refused != nil && refused.Code == amqp.NotFound && !t.declare {
		out.Findings = append(out.Findings, Finding{Kind: e.kind, Name: e.name, Problem: Missing})
		return nil
	}
	// A passive declaration of an exchange compares nothing, not even the type.
	refused, err = try(c, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(e.name, e.typ, true, false, false, false, nil)
	})
	if err != nil || refused == nil {
		return err
	}
	f, _, ok := e.difference(nil, refused)
	if !ok || f.Argument != "type" && !t.declare && !t.strict {
		f = Finding{Kind: e.kind, Name: e.name, Problem: Unverified, Detail: clip(refused.Reason)}
	}
	out.Findings = append(out.Findings, f)
	return nil
}

func (t *topology) inspectQueue(c channels, e *entity, out *Inspection) error {
	args, durable := maps.Clone(e.args), true
	declare := func(passive bool) (q amqp.Queue, refused *amqp.Error, err error) {
		refused, err = try(c, func(ch *amqp.Channel) (err error) {
			if passive {
				q, err = ch.QueueDeclarePassive(e.name, durable, false, false, false, args)
			} else {
				q, err = ch.QueueDeclare(e.name, durable, false, false, false, args)
			}
			return err
		})
		return q, refused, err
	}
	q, refused, err := declare(true)
	if err != nil {
		return err
	}
	state := QueueState{Name: e.name, Messages: q.Messages, Consumers: q.Consumers}
	defer func() {
		state.Arguments = map[string]string{}
		for name, value := range args {
			state.Arguments[name] = fmt.Sprint(value)
		}
		out.Queues = append(out.Queues, state)
	}()
	if refused != nil && refused.Code == amqp.NotFound && !t.declare {
		state.Missing, args = true, nil
		out.Findings = append(out.Findings, Finding{Kind: e.kind, Name: e.name, Problem: Missing})
		return nil
	}
	for range maxDifferences {
		if _, refused, err = declare(false); err != nil || refused == nil {
			return err
		}
		f, typ, ok := e.difference(args, refused)
		if !ok {
			out.Findings = append(
				out.Findings, Finding{Kind: e.kind, Name: e.name, Problem: Unverified, Detail: clip(refused.Reason)})
			return nil
		}
		if t.declare || t.strict || slices.Contains(e.essential, f.Argument) {
			out.Findings = append(out.Findings, f)
		}
		if f.Argument == "durable" {
			durable = f.Have == "true"
		} else if !adopt(args, f, typ) {
			return nil // the next declaration would fail in the same way
		}
	}
	return nil
}

// inequivalent is how RabbitMQ refuses a declaration that differs from an existing one. It quotes values without
// escaping them and cuts the text off at 255 bytes, so the broker's value may be missing.
var (
	inequivalent = regexp.MustCompile(`inequivalent arg '([^']+)' for (?:queue|exchange) '`)
	typedValue   = regexp.MustCompile(`^the value '(.*)' of type '([a-z]+)'$`)
	plainValue   = regexp.MustCompile(`^'(.*)'$`)
)

// notStated is the broker's value where its text was cut off.
const notStated = "(not stated)"

// difference reads the broker's refusal of a declaration with these arguments. typ is the type of the broker's value,
// "" if it is that of the declared one.
func (e *entity) difference(args amqp.Table, refused *amqp.Error) (f Finding, typ string, ok bool) {
	m := inequivalent.FindStringSubmatch(refused.Reason)
	if refused.Code != amqp.PreconditionFailed || m == nil {
		return f, "", false
	}
	f = Finding{Kind: e.kind, Name: e.name, Problem: Different, Argument: clip(m[1]), Have: notStated}
	switch want, set := args[f.Argument]; {
	case set:
		f.Want = fmt.Sprint(want)
	case f.Argument == "type":
		f.Want = e.typ
	case f.Argument == "durable":
		f.Want = "true"
	case !strings.HasPrefix(f.Argument, "x-"):
		f.Want = "false" // auto_delete, exclusive, internal
	}
	const mark = " but current is "
	at := strings.LastIndex(refused.Reason, mark)
	if at < 0 {
		return f, "", true
	}
	have := strings.TrimSuffix(refused.Reason[at+len(mark):], `"`)
	if m := typedValue.FindStringSubmatch(have); m != nil {
		f.Have, typ = clip(m[1]), m[2]
	} else if m := plainValue.FindStringSubmatch(have); m != nil {
		f.Have = clip(m[1])
	} else if have == "none" {
		f.Have = ""
	}
	return f, typ, true
}

// adopt takes the broker's value of an argument over, for the next declaration. It fails for a value that it does not
// know.
func adopt(args amqp.Table, f Finding, typ string) bool {
	before, had := args[f.Argument]
	switch {
	case f.Have == notStated, !strings.HasPrefix(f.Argument, "x-"):
		return false
	case f.Have == "":
		delete(args, f.Argument)
		return had
	}
	_, number := before.(int64)
	switch {
	case typ == "long", typ == "signedint", typ == "short", typ == "byte", typ == "unsignedint", typ == "" && number:
		n, err := strconv.ParseInt(f.Have, 10, 64)
		if err != nil {
			return false
		}
		args[f.Argument] = n
	case typ == "bool":
		args[f.Argument] = f.Have == "true"
	case typ == "longstr", typ == "":
		args[f.Argument] = f.Have
	default:
		return false
	}
	return fmt.Sprint(args[f.Argument]) != fmt.Sprint(before)
}

// clip keeps foreign text short and valid.
func clip(s string) string {
	const most = 300
	if len(s) > most {
		s = s[:most] + "..."
	}
	return validText([]byte(s))
}

func validText(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
