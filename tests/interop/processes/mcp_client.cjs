// The official TypeScript SDK at the relay.
//
//   echo URL [SIZE, ...]   sends messages of these sizes, one behind the other, to a process that gives them
//                          back, and compares
//   call URL [SIZE, ...]   initializes an MCP server and calls its tool `echo` with texts of these sizes, all
//                          at once
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { WebSocketClientTransport } = require("@modelcontextprotocol/sdk/client/websocket.js");

globalThis.WebSocket = require("ws").WebSocket;

const text = (size) => "€".repeat(size);
const message = (id, size) => ({ jsonrpc: "2.0", id, method: "echo", params: { text: text(size) } });

async function echo(transport, sizes) {
  const got = [];
  const all = new Promise((resolve, reject) => {
    transport.onmessage = (received) => {
      got.push(received);
      if (got.length === sizes.length) resolve();
    };
    transport.onerror = reject;
    transport.onclose = () => reject(new Error(`closed after ${got.length} messages`));
  });
  await transport.start();
  await Promise.all(sizes.map((size, id) => transport.send(message(id, size))));
  await all;
  got.forEach((received, id) => {
    if (JSON.stringify(received) !== JSON.stringify(message(id, sizes[id]))) {
      throw new Error(`message ${id} came back changed`);
    }
  });
  transport.onclose = undefined;
  await transport.close();
}

async function call(transport, sizes) {
  const client = new Client({ name: "caisson-interop", version: "1" });
  await client.connect(transport);
  const { tools } = await client.listTools();
  if (!tools.some(({ name }) => name === "echo")) throw new Error("the server has no tool echo");
  await Promise.all(
    sizes.map(async (size) => {
      const result = await client.callTool({ name: "echo", arguments: { message: text(size) } });
      if (result.content[0].text !== `Echo: ${text(size)}`) throw new Error(`${size} characters came back changed`);
    }),
  );
  await client.close();
}

const [action, url, sizes] = process.argv.slice(2);
({ echo, call })[action](new WebSocketClientTransport(new URL(url)), JSON.parse(sizes)).catch((error) => {
  console.error(error);
  process.exit(1);
});
