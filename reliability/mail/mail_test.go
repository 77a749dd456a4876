package mail_test

import (
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/mail"
	"github.com/sloengine/sloengine/reliability/mail/mailtest"
	"github.com/sloengine/sloengine/reliability/nettest"
	"github.com/sloengine/sloengine/reliability/retry"
)

func smarthost(s *mailtest.Server, way mail.TLS) mail.Server {
	return mail.Server{
		Smarthost: s.Address, From: "SLO reports <slo@example.org>", Username: mailtest.User,
		Password: func() (string, error) {
			return mailtest.Password, nil
		},
		TLS: way, TLSConfig: s.TLS, Hello: "engine.example.org", Timeout: 20 * time.Second,
	}
}

func message() mail.Message {
	return mail.Message{
		To: "Ops <ops@example.org>", ID: "r1.2026-10@example.org", Date: time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC),
		Subject: "Отчёт за октябрь",
		Text:    "plain\n.\nafter a dot", HTML: "<p>rich</p>",
		Attachments: []mail.Attachment{{Name: "r.csv", Type: "text/csv", Data: []byte("a,b\r\n1,2\r\n")}},
	}
}

// TestSend is a message through a real server: by STARTTLS and by TLS, with a password, in two forms, with a file.
func TestSend(t *testing.T) {
	for way, o := range map[mail.TLS]mailtest.Options{mail.StartTLS: {}, mail.ImplicitTLS: {Implicit: true}} {
		s := mailtest.Start(t, o)
		require.NoError(t, smarthost(s, way).Send(t.Context(), message()), way)
		got := s.Received()
		require.Len(t, got, 1)
		require.Equal(t, "slo@example.org", got[0].From)
		require.Equal(t, []string{"ops@example.org"}, got[0].To)
		m := got[0].Mail(t)
		require.Equal(t, "<r1.2026-10@example.org>", m.Header.Get("Message-Id"))
		require.Equal(t, "auto-generated", m.Header.Get("Auto-Submitted"))
		subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
		require.NoError(t, err)
		require.Equal(t, "Отчёт за октябрь", subject)
		_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
		require.NoError(t, err)
		types := []string{}
		parts := multipart.NewReader(m.Body, params["boundary"])
		for {
			p, err := parts.NextPart()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			typ, inner, err := mime.ParseMediaType(p.Header.Get("Content-Type"))
			require.NoError(t, err)
			if typ == "multipart/alternative" {
				forms := multipart.NewReader(p, inner["boundary"])
				for {
					f, err := forms.NextPart()
					if errors.Is(err, io.EOF) {
						break
					}
					require.NoError(t, err)
					body, err := io.ReadAll(f)
					require.NoError(t, err)
					types = append(types, f.Header.Get("Content-Type")+" "+strings.TrimSpace(string(body)))
				}
				continue
			}
			types = append(types, typ+" "+p.FileName())
		}
		require.Equal(t, []string{"text/plain; charset=UTF-8 plain\r\n.\r\nafter a dot",
			"text/html; charset=UTF-8 <p>rich</p>", "text/csv r.csv"}, types)
	}
}

// TestLongHeaders sends texts that a mail server would refuse as they are.
func TestLongHeaders(t *testing.T) {
	t.Parallel()
	s := mailtest.Start(t, mailtest.Options{})
	for i, subject := range []string{strings.Repeat("a", 2000), strings.Repeat("\U0001d54f", 500),
		strings.Repeat("word ", 400), "a\u2028b\r\nBcc: x@example.org"} {
		m := message()
		m.Subject, m.Attachments[0].Name = subject, strings.Repeat("n", 2000)+".csv"
		require.NoError(t, smarthost(s, mail.StartTLS).Send(t.Context(), m))
		got := s.Received()[i]
		require.Empty(t, got.Mail(t).Header.Get("Bcc"))
		for line := range strings.SplitSeq(got.Raw, "\r\n") {
			require.LessOrEqual(t, len(line), 500)
		}
		require.Contains(t, got.Raw, "\r\nSubject:")
	}
	require.Equal(t, "Subject: a b", mail.Header("Subject", " a\r\n\r\nb "))
	long := mail.Header("X", strings.Repeat("word ", 100))
	require.LessOrEqual(t, len(long), 400)
	for line := range strings.SplitSeq(long, "\r\n") {
		require.LessOrEqual(t, len(line), 76)
	}
	require.True(t, strings.HasSuffix(long, "…") || strings.HasSuffix(long, "?="), long)
}

// TestContentIsNotTheServer distinguishes a message that cannot be sent from a server that cannot be
// reached.
func TestContentIsNotTheServer(t *testing.T) {
	t.Parallel()
	s := mailtest.Start(t, mailtest.Options{})
	down := func(err error) bool {
		var e *mail.Error
		require.ErrorAs(t, err, &e)
		return e.Down()
	}
	m := message()
	m.To = "nobody"
	require.False(t, down(smarthost(s, mail.StartTLS).Send(t.Context(), m)))
	s.Set(mailtest.RefuseMessage)
	require.False(t, down(smarthost(s, mail.StartTLS).Send(t.Context(), message())))
	away := smarthost(s, mail.StartTLS)
	away.Smarthost = nettest.FreeAddress(t)
	require.True(t, down(away.Send(t.Context(), message())))
	refused := smarthost(s, mail.StartTLS)
	refused.Password = func() (string, error) { return "wrong", nil }
	require.True(t, down(refused.Send(t.Context(), message())))
}

// TestFaults: every fault ends in time, names the problem, and has its own class.
func TestFaults(t *testing.T) {
	s := mailtest.Start(t, mailtest.Options{})
	for fault, want := range map[mailtest.Fault]struct {
		brief     string
		class     retry.Class
		recipient bool
	}{
		mailtest.RefuseSender:   {"the server refuses the message (451)", retry.ClassTransient, false},
		mailtest.RefuseAll:      {"the server refuses the recipient (550)", retry.ClassPermanent, true},
		mailtest.RefuseMessage:  {"the server refuses the message (554)", retry.ClassPermanent, false},
		mailtest.DropAfterData:  {"the connection broke", retry.ClassTransient, false},
		mailtest.HangAtData:     {"no answer in time", retry.ClassTimeout, false},
		mailtest.HangAtGreeting: {"no answer in time", retry.ClassTimeout, false},
		mailtest.Flood:          {"the server sends too much", retry.ClassTransient, false},
	} {
		s.Set(fault)
		host := smarthost(s, mail.StartTLS)
		if fault == mailtest.HangAtData || fault == mailtest.HangAtGreeting {
			host.Timeout = 300 * time.Millisecond
		}
		began := time.Now()
		err := host.Send(t.Context(), message())
		var e *mail.Error
		require.ErrorAs(t, err, &e, want.brief)
		require.Equal(t, want.brief, e.Brief())
		require.Equal(t, want.class, retry.ClassOf(err), want.brief)
		require.Equal(t, want.recipient, e.Recipient, want.brief)
		require.NotContains(t, err.Error(), "\x1b")
		require.Less(t, time.Since(began), 5*time.Second, want.brief)
	}
	s.Set(mailtest.HangAtData)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	require.Error(t, smarthost(s, mail.StartTLS).Send(ctx, message()), "the caller may give up")
}

// TestEncryption: a password never crosses a connection that is not encrypted, and no unknown certificate is trusted.
func TestEncryption(t *testing.T) {
	bare := mailtest.Start(t, mailtest.Options{NoTLS: true})
	for _, way := range []mail.TLS{mail.StartTLS, mail.ImplicitTLS, ""} {
		err := smarthost(bare, way).Send(t.Context(), message())
		require.Error(t, err, way)
		require.Empty(t, bare.Received())
		if way != mail.ImplicitTLS {
			require.ErrorContains(t, err, "does not offer STARTTLS")
		}
	}
	s := mailtest.Start(t, mailtest.Options{})
	host := smarthost(s, mail.StartTLS)
	host.TLSConfig = nil
	err := host.Send(t.Context(), message())
	require.ErrorContains(t, err, "certificate of the server is not trusted")
	require.Equal(t, retry.ClassBlocked, retry.ClassOf(err))
}

// TestWrongPassword: the server repeats the password, the error does not.
func TestWrongPassword(t *testing.T) {
	s := mailtest.Start(t, mailtest.Options{})
	host := smarthost(s, mail.StartTLS)
	host.Password = func() (string, error) { return "wrong-hunter2", nil }
	err := host.Send(t.Context(), message())
	require.EqualError(t, err, "the server refuses user name or password")
	require.Equal(t, retry.ClassBlocked, retry.ClassOf(err))
	host.Password = func() (string, error) { return "", errors.New("open /run/secret: permission denied") }
	err = host.Send(t.Context(), message())
	require.ErrorContains(t, err, "its password cannot be read: open /run/secret")
}

// TestHostileHeaders: a name cannot add headers or recipients.
func TestHostileHeaders(t *testing.T) {
	s := mailtest.Start(t, mailtest.Options{})
	m := message()
	m.Subject, m.ID, m.Attachments[0].Name = "x\r\nBcc: evil@example.org\r\n\r\nbody",
		"a@b\r\nX-Bad: 1", "a\"\r\nX-Bad: 1.csv"
	require.NoError(t, smarthost(s, mail.StartTLS).Send(t.Context(), m))
	got := s.Received()[0]
	require.Equal(t, []string{"ops@example.org"}, got.To)
	require.Empty(t, got.Mail(t).Header.Get("Bcc"))
	require.Empty(t, got.Mail(t).Header.Get("X-Bad"))
	require.NotContains(t, got.Raw, "\nX-Bad")
	for _, bad := range []string{"", "nobody", "a@b\r\nRCPT TO:<x@y>", "a b@c", "<a@b",
		strings.Repeat("a", 600) + "@b.c"} {
		require.Error(t, mail.CheckAddress(bad), bad)
		m := message()
		m.To = bad
		require.Error(t, smarthost(s, mail.StartTLS).Send(t.Context(), m), bad)
	}
	require.Len(t, s.Received(), 1)
	for _, good := range []string{"a@b.c", "Ops Team <a@b.c>", `"O'Neil, \"X\"" <a@b.c>`} {
		require.NoError(t, mail.CheckAddress(good))
	}
}

func TestSmarthosts(t *testing.T) {
	for _, good := range []string{"mail.example.org:587", "127.0.0.1:25", "[::1]:465"} {
		require.NoError(t, mail.CheckSmarthost(good), good)
	}
	for _, bad := range []string{"", "mail.example.org", ":25", "mail:smtp", "mail:0", "mail:70000",
		"smtp://mail:25", "user@mail:25"} {
		require.Error(t, mail.CheckSmarthost(bad), bad)
	}
	host := mail.Server{Smarthost: nettest.FreeAddress(t), From: "a@b.c"}
	err := host.Send(t.Context(), message())
	var e *mail.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "no connection", e.Brief())
}
