module github.com/hashicorp/go-sockaddr

go 1.26.0
