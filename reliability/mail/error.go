package mail

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/textproto"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
)

// Error says why a message was not sent. It never holds the password.
type Error struct {
	Code      int  // of the server's answer; 0: it gave none
	Recipient bool // the server refused this recipient, and may take others
	brief     string
	blocked   bool  // until the settings change
	content   bool  // the message is at fault, and was not sent
	err       error // nil if brief says everything
}

func (e *Error) Error() string {
	if e.err == nil {
		return e.brief
	}
	return e.brief + ": " + e.err.Error()
}

func (e *Error) Unwrap() error { return e.err }

// Brief is the error without the text of the server.
func (e *Error) Brief() string { return e.brief }

// RetryClass distinguishes failures that may pass from those that an operator must fix.
func (e *Error) RetryClass() retry.Class {
	switch {
	case e.blocked:
		return retry.ClassBlocked
	case e.content:
		return retry.ClassPermanent
	case e.Code > 0:
		class, _ := ClassOf(e.Code)
		return class
	case e.err != nil && errors.Is(e.err, context.DeadlineExceeded):
		return retry.ClassTimeout
	}
	return retry.ClassTransient
}

// Down reports whether other messages would fail as well: the server is not reachable, or refuses this sender.
func (e *Error) Down() bool {
	_, down := ClassOf(e.Code)
	return e.blocked || down || e.Code == 0 && !e.content
}

// ClassOf is the class of a server's reply code (RFC 5321, 4.2). down says that the server takes no message for
// now.
func ClassOf(code int) (class retry.Class, down bool) {
	switch {
	case code == 421: // it closes the connection
		return retry.ClassTransient, true
	case code == 530 || code == 534 || code == 535 || code == 538: // it wants other credentials, or TLS
		return retry.ClassBlocked, true
	case code >= 500:
		return retry.ClassPermanent, false
	}
	return retry.ClassTransient, false
}

// failed converts an error of the library to an Error.
func (s *Server) failed(ctx context.Context, err error) error {
	e := &Error{}
	var answer *textproto.Error
	var send *gomail.SendError
	if errors.As(err, &answer) {
		e.Code = answer.Code
	}
	if errors.As(err, &send) {
		e.Code, e.Recipient = send.ErrorCode(), send.Reason == gomail.ErrSMTPRcptTo
	}
	var unknown x509.UnknownAuthorityError
	var certificate *tls.CertificateVerificationError
	text := err.Error()
	switch {
	case ended(ctx) != nil:
		e.brief, e.err = "no answer in time", ended(ctx)
		return e
	case errors.Is(err, errTooMuch):
		e.brief = "the server sends too much"
		return e
	case strings.Contains(text, "SMTP AUTH"):
		// Servers may repeat the text of the client, so nothing of the answer is taken over.
		e.brief, e.blocked = "the server refuses user name or password", true
		if e.Code == 0 || e.Code/100 == 4 {
			e.brief, e.blocked = "authentication failed", e.Code == 0
		}
		return e
	case errors.As(err, &unknown) || errors.As(err, &certificate):
		e.brief, e.blocked = "the certificate of the server is not trusted", true
	case strings.Contains(text, "does not support STARTTLS"):
		e.brief, e.blocked = "the server does not offer STARTTLS", true
		return e
	case e.Recipient:
		e.brief = fmt.Sprintf("the server refuses the recipient (%d)", e.Code)
	case e.Code > 0:
		e.brief = fmt.Sprintf("the server refuses the message (%d)", e.Code)
	case send != nil:
		e.brief = "the connection broke"
	default:
		e.brief = "no connection"
	}
	e.err = errors.New(s.clean(text))
	return e
}

// ended is ctx.Err, but does not miss a deadline that the connection noticed before the context did.
func ended(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// clean is remote.Text without the password, should a server repeat it.
func (s *Server) clean(text string) string {
	if s.Username != "" && s.Password != nil {
		if password, err := s.Password(); err == nil && password != "" {
			text = strings.ReplaceAll(text, password, "***")
		}
	}
	return remote.Text(text)
}
