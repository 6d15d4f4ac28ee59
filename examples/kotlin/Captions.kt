// A reader of one room in Kotlin, with nothing but the JDK (11 or newer). It prints captions.
//
//   kotlinc Captions.kt -include-runtime -d captions.jar
//   java -jar captions.jar ws://127.0.0.1:8000 demo de
//
// It asks for plain lines. A program that shows growing captions or resumes reads JSON instead: the
// sub-protocol gw.v1.json, and the JSON library of your choice.

import java.net.URI
import java.net.http.HttpClient
import java.net.http.WebSocket
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CompletionStage

class CaptionReader(private val show: (String) -> Unit) : WebSocket.Listener {
    /** Completed with the close code when the socket has ended. */
    val ended = CompletableFuture<Int>()
    private val frame = StringBuilder()

    override fun onText(socket: WebSocket, data: CharSequence, last: Boolean): CompletionStage<*>? {
        frame.append(data)
        if (last) {
            show(frame.toString())
            frame.setLength(0)
        }
        socket.request(1)
        return null
    }

    override fun onClose(socket: WebSocket, code: Int, reason: String): CompletionStage<*>? {
        ended.complete(code)
        return null
    }

    override fun onError(socket: WebSocket, error: Throwable) {
        ended.completeExceptionally(error)
    }
}

fun main(args: Array<String>) {
    val (gateway, room, lang) = args
    val query = "room=$room&to=$lang&role=view&view=final&plain=1"
    val reader = CaptionReader(::println)
    HttpClient.newHttpClient().newWebSocketBuilder()
        .buildAsync(URI.create("$gateway/v1/ws?$query"), reader).join()
    // From 4400 to 4499 another attempt would fail too; else connect again after a random time.
    println("closed: ${reader.ended.join()}")
}
