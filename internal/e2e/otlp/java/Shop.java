import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.stream.Collectors;

/** A web shop that counts its own requests. It knows no OpenTelemetry: the agent instruments the server of the JDK. */
class Shop {
    interface Page {
        int open(HttpExchange exchange);
    }

    static final Map<String, Integer> counts = new ConcurrentHashMap<>();

    public static void main(String[] args) throws IOException {
        var server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(Executors.newFixedThreadPool(4));
        page(server, "/items", e -> 200);
        page(server, "/items/", e -> Integer.parseInt(e.getRequestURI().getPath().substring(7)) < 50 ? 200 : 404);
        page(server, "/orders", e -> e.getRequestURI().getQuery() == null ? 201 : 500);
        page(server, "/broken", e -> 503);
        page(server, "/", e -> 404);
        server.start();
        System.out.println("{\"port\": " + server.getAddress().getPort() + "}");
        end(() -> server.stop(0));
    }

    static void page(HttpServer server, String route, Page page) {
        server.createContext(route, exchange -> {
            int status = page.open(exchange);
            count(exchange.getRequestMethod() + " " + route + " " + status);
            exchange.sendResponseHeaders(status, -1);
            exchange.close();
        });
    }

    static void count(String what) {
        counts.merge(System.currentTimeMillis() / 60000 * 60 + " " + what, 1, Integer::sum);
    }

    /** Prints the counts at SIGTERM and exits, whereupon the agent sends what it still has. */
    static void end(Runnable stop) {
        sun.misc.Signal.handle(new sun.misc.Signal("TERM"), signal -> {
            stop.run();
            System.out.println(counts.entrySet().stream().map(e -> "\"" + e.getKey() + "\": " + e.getValue())
                .collect(Collectors.joining(", ", "{\"counts\": {", "}}")));
            System.exit(0);
        });
    }
}
