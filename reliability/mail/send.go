package mail

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"mime"
	"net"
	netmail "net/mail"
	"strconv"
	"strings"
	"sync"
	"time"

	gomail "github.com/wneessen/go-mail"

	"github.com/sloengine/sloengine/reliability/remote"
)

const (
	maxAnswers = 256 << 10 // bytes that a server may send for one message
	quitWait   = 2 * time.Second
)

// Message is one mail.
type Message struct {
	To string
	// of the Message-ID header, without the angle brackets. A message that is sent again has the same one
	ID          string
	Date        time.Time
	Subject     string
	Text, HTML  string // two forms of the same content
	Attachments []Attachment
}

// Attachment is a file that comes with the message.
type Attachment struct {
	Name, Type string
	Data       []byte
}

// Send hands a message to the server. It returns nil once the server has accepted it, even if the connection breaks
// then, and an *Error otherwise. If the connection broke at the end of the message, it is unknown whether the server
// has it.
func (s Server) Send(ctx context.Context, m Message) error {
	s.applyDefaults()
	msg, err := s.build(&m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	d := &dialer{server: &s}
	defer d.close()
	defer context.AfterFunc(ctx, d.close)() // the call ends in time for any behaviour of the server
	c, err := s.client(d)
	if err != nil {
		return err
	}
	session, err := c.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return s.failed(ctx, err)
	}
	err = c.SendWithSMTPClient(session, msg)
	if err != nil && !msg.IsDelivered() {
		return s.failed(ctx, err)
	}
	d.hurry(quitWait)
	_ = session.Quit() // the message is theirs already
	return nil
}

func (s *Server) client(d *dialer) (*gomail.Client, error) {
	host, port, err := net.SplitHostPort(s.Smarthost)
	n, numeric := strconv.Atoi(port)
	if err = errors.Join(err, numeric); err != nil {
		return nil, &Error{brief: "invalid smarthost", err: err}
	}
	// A RSET after the message, which some servers answer with an error, says nothing about the message.
	options := []gomail.Option{gomail.WithPort(n), gomail.WithTimeout(s.Timeout), gomail.WithDialContextFunc(d.dial),
		gomail.WithoutNoop(), gomail.WithoutRset()}
	switch s.TLS {
	case StartTLS:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSMandatory), gomail.WithTLSConfig(s.tlsConfig()))
	default: // the dialer does it, or it is not done
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS))
	}
	if s.Hello != "" {
		options = append(options, gomail.WithHELO(s.Hello))
	}
	if s.Username != "" {
		password, err := s.Password()
		if err != nil {
			return nil, &Error{brief: "its password cannot be read", blocked: true, err: err}
		}
		options = append(options, gomail.WithUsername(s.Username), gomail.WithPassword(password),
			gomail.WithOpportunisticSMTPAuth(gomail.SMTPAuthSCRAMSHA256, gomail.SMTPAuthSCRAMSHA1, gomail.SMTPAuthPlain,
				gomail.SMTPAuthLogin, gomail.SMTPAuthCramMD5))
	}
	c, err := gomail.NewClient(host, options...)
	if err != nil {
		return nil, &Error{brief: "invalid settings of the mail server", err: err}
	}
	return c, nil
}

func (s *Server) tlsConfig() *tls.Config {
	c := s.TLSConfig.Clone()
	if c == nil {
		c = &tls.Config{}
	}
	if c.ServerName == "" {
		c.ServerName, _, _ = net.SplitHostPort(s.Smarthost)
	}
	c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
	return c
}

// build makes the message. Text from outside cannot add headers to it.
func (s *Server) build(m *Message) (*gomail.Msg, error) {
	from, err := parseAddress(s.From)
	if err != nil {
		return nil, &Error{brief: "invalid sender", err: fmt.Errorf("from: %w", err)}
	}
	to, err := parseAddress(m.To)
	if err != nil {
		return nil, &Error{brief: "invalid recipient", content: true, err: fmt.Errorf("to: %w", err)}
	}
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(plain(from))
	msg.ToMailAddress(plain(to))
	msg.Subject(headerText(m.Subject))
	msg.SetDateWithValue(m.Date)
	msg.SetMessageIDWithValue(remote.OneLine(m.ID))
	msg.SetGenHeader(gomail.Header("Auto-Submitted"), "auto-generated") // no out-of-office replies, RFC 3834
	msg.SetBodyString(gomail.TypeTextPlain, m.Text)
	if m.HTML != "" {
		msg.AddAlternativeString(gomail.TypeTextHTML, m.HTML)
	}
	for _, a := range m.Attachments {
		if err := msg.AttachReader(headerText(a.Name), bytes.NewReader(a.Data),
			gomail.WithFileContentType(gomail.ContentType(a.Type))); err != nil {
			return nil, &Error{brief: "an attachment cannot be added", content: true, err: err}
		}
	}
	return msg, nil
}

func plain(a *netmail.Address) *netmail.Address {
	return &netmail.Address{Name: headerText(a.Name), Address: a.Address}
}

// maxHeader is how many characters of a text a header shows. Servers refuse lines beyond 998 bytes (RFC 5321), and this
// one is shorter even without a place to fold it.
const maxHeader = 200

// headerText removes characters that would end a header, and shortens it.
func headerText(s string) string { return remote.Shorten(remote.OneLine(s), maxHeader) }

// Header is a header with its text shortened, encoded, and folded into lines of at most 76 bytes where it has spaces.
func Header(name, text string) string {
	out, column := name+":", len(name)+1
	for word := range strings.FieldsSeq(mime.QEncoding.Encode("utf-8", headerText(text))) {
		if column+1+len(word) > 76 {
			out, column = out+"\r\n", 0
		}
		out, column = out+" "+word, column+1+len(word)
	}
	return out
}

// dialer opens the connection, so that it is closed regardless of the library, and bounds the incoming data.
type dialer struct {
	server *Server

	mu   sync.Mutex
	conn net.Conn // nil before the first dial
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.conn = raw
	d.mu.Unlock()
	bounded := &boundedConn{Conn: raw, left: maxAnswers}
	if d.server.TLS != ImplicitTLS {
		return bounded, nil
	}
	t := tls.Client(bounded, d.server.tlsConfig())
	return t, t.HandshakeContext(ctx)
}

// close may be called at any time.
func (d *dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil {
		_ = d.conn.Close()
	}
}

// hurry shortens the time for the remaining steps.
func (d *dialer) hurry(wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.conn.SetDeadline(time.Now().Add(wait))
}

var errTooMuch = errors.New("the server sends too much")

// boundedConn ends the conversation with a server that talks without end. One goroutine reads.
type boundedConn struct {
	net.Conn
	left int
}

func (c *boundedConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errTooMuch
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
