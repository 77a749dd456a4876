// Package connlimit bounds the connections that a server holds open.
//
// A listener that is full makes room by closing the connection that has gone longest
// without showing credentials, and where all have shown them, the one that has been idle
// longest. While every connection is at work, new ones are closed at once. Besides the
// number there is a reserve: descriptors that connections never take, so that the process
// can open its files and call others however many clients connect.
//
// It does not know credentials: the code that checks them calls [Trust].
package connlimit
