// Package mailtest is a mail server for tests, with STARTTLS and AUTH, and with faults.
package mailtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	netmail "net/mail"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"
)

// User and Password are accepted.
const (
	User     = "reports"
	Password = "s3cret-pass-word"
)

// Fault is the behaviour of the server instead of accepting a message.
type Fault int

// The faults.
const (
	None           Fault = iota
	RefuseSender         // 451 to MAIL
	RefuseAll            // 550 to every recipient
	RefuseMessage        // 554 after the message
	DropAfterData        // takes the message and breaks the connection before it says so
	HangAtData           // never answers the message
	HangAtGreeting       // never says anything
	Flood                // talks without end
)

// Received is one message that the server has.
type Received struct {
	From string
	To   []string
	Raw  string
}

// Mail reads the message.
func (r *Received) Mail(t testing.TB) *netmail.Message {
	m, err := netmail.ReadMessage(strings.NewReader(r.Raw))
	require.NoError(t, err)
	return m
}

// Server listens on a free port of the loopback.
type Server struct {
	Address string
	CAFile  string // certificate of the server
	TLS     *tls.Config

	mu       sync.Mutex
	fault    Fault
	received []Received
	onData   func() // runs when a message is there, before the answer
	conns    map[net.Conn]bool
	refused  map[string]bool

	refusedText string // "": none
}

// Options of a Server.
type Options struct {
	Implicit bool // TLS from the first byte
	NoTLS    bool // the server offers none
}

// Start starts a server that ends with the test.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s := &Server{conns: map[net.Conn]bool{}, refused: map[string]bool{}}
	cert, file := certificate(t)
	s.CAFile = file
	pool := x509.NewCertPool()
	pool.AddCert(cert.Leaf)
	s.TLS = &tls.Config{RootCAs: pool}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.Address = l.Addr().String()
	srv := smtp.NewServer(&backend{s})
	srv.Domain, srv.ErrorLog = "mail.test", quiet{}
	server := &tls.Config{Certificates: []tls.Certificate{cert}}
	l = &faulty{l, s}
	switch {
	case o.Implicit:
		l = tls.NewListener(l, server)
	case !o.NoTLS:
		srv.TLSConfig = server
	default:
		srv.AllowInsecureAuth = true
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	t.Cleanup(func() {
		_ = l.Close() // a server that does not serve yet would serve on after Close
		_ = srv.Close()
		s.mu.Lock()
		for c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		<-done
	})
	return s
}

// Set changes the behaviour of the server from now on.
func (s *Server) Set(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// RefuseText answers 554 to messages that hold a text.
func (s *Server) RefuseText(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusedText = text
}

// Refuse answers 550 to one recipient.
func (s *Server) Refuse(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[address] = true
}

// OnData sets a function that runs when a message has arrived, before the server confirms it.
func (s *Server) OnData(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onData = f
}

// Received are the messages so far.
func (s *Server) Received() []Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Received(nil), s.received...)
}

func (s *Server) now() Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

type backend struct{ s *Server }

func (b *backend) NewSession(c *smtp.Conn) (smtp.Session, error) {
	return &session{s: b.s, conn: c.Conn()}, nil
}

type session struct {
	s        *Server
	conn     net.Conn
	received Received
	known    bool
}

func (x *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (x *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != User || password != Password {
			return &smtp.SMTPError{Code: 535, Message: "no such user " + user + " with " + password}
		}
		x.known = true
		return nil
	}), nil
}

func (x *session) Mail(from string, _ *smtp.MailOptions) error {
	if !x.known {
		return &smtp.SMTPError{Code: 530, EnhancedCode: smtp.EnhancedCode{5, 7, 0}, Message: "authentication required"}
	}
	if x.s.now() == RefuseSender {
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 7, 1}, Message: "greylisted, \x1b[2Jtry again"}
	}
	x.received = Received{From: from}
	return nil
}

func (x *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	x.s.mu.Lock()
	refused := x.s.refused[to] || x.s.fault == RefuseAll
	x.s.mu.Unlock()
	if refused {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user here"}
	}
	x.received.To = append(x.received.To, to)
	return nil
}

func (x *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	x.received.Raw = string(raw)
	fault := x.s.now()
	x.s.mu.Lock()
	refused := x.s.refusedText != "" && strings.Contains(x.received.Raw, x.s.refusedText)
	x.s.mu.Unlock()
	if fault == RefuseMessage || refused {
		return &smtp.SMTPError{Code: 554, Message: "this looks like spam"}
	}
	x.s.mu.Lock()
	x.s.received = append(x.s.received, x.received)
	hook := x.s.onData
	x.s.mu.Unlock()
	if hook != nil {
		hook()
	}
	switch fault {
	case DropAfterData:
		return x.conn.Close()
	case HangAtData:
		_, _ = io.Copy(io.Discard, x.conn) // until the client gives up
	}
	return nil
}

func (x *session) Reset()        {}
func (x *session) Logout() error { return nil }

// faulty is a listener whose connections hang or flood before the server says a word.
type faulty struct {
	net.Listener
	s *Server
}

func (l *faulty) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		f := l.s.now()
		if f != HangAtGreeting && f != Flood {
			return c, nil
		}
		l.s.mu.Lock()
		l.s.conns[c] = true
		l.s.mu.Unlock()
		if f == Flood {
			go func() {
				line := []byte("220-" + strings.Repeat("x", 1000))
				for {
					if _, err := c.Write(line); err != nil {
						return
					}
				}
			}()
		}
	}
}

func certificate(t testing.TB) (tls.Certificate, string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mail.test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "mail.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, file
}
