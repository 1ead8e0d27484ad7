// Drives kubernetes-mcp-server over its standard input and output and prints the
// answers to a few tool calls as JSON.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

// Read-only it has no tool that executes commands.
const rights = process.env.COMMAND ? [] : ['--read-only'];
const server = spawn('npx', ['--no-install', 'kubernetes-mcp-server', '--kubeconfig', process.env.KUBECONFIG, ...rights], { stdio: ['pipe', 'pipe', 'inherit'] });
const waiting = new Map();
createInterface({ input: server.stdout }).on('line', (line) => {
  const message = JSON.parse(line);
  waiting.get(message.id)?.(message);
});
let id = 0;
const call = (method, params) => new Promise((resolve) => {
  waiting.set(++id, resolve);
  server.stdin.write(JSON.stringify({ jsonrpc: '2.0', id, method, params }) + '\n');
});
const tool = async (name, args) => {
  const { result } = await call('tools/call', { name, arguments: args });
  return { error: Boolean(result.isError), text: result.content.map((c) => c.text).join('\n') };
};
await call('initialize', { protocolVersion: '2025-03-26', capabilities: {}, clientInfo: { name: 'test', version: '1' } });
server.stdin.write(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' }) + '\n');
const name = process.env.POD;
const out = {
  pods: await tool('pods_list_in_namespace', { namespace: 'shop' }),
  pod: await tool('pods_get', { namespace: 'shop', name }),
  log: await tool('pods_log', { namespace: 'shop', name, tail: 2 }),
  events: await tool('events_list', { namespace: 'shop' }),
  deployments: await tool('resources_list', { apiVersion: 'apps/v1', kind: 'Deployment', namespace: 'shop' }),
};
if (process.env.COMMAND) {
  out.exec = await tool('pods_exec', { namespace: 'shop', name, command: process.env.COMMAND.split(' ') });
  out.top = await tool('pods_top', { namespace: 'shop', all_namespaces: false });
}
console.log(JSON.stringify(out));
server.kill();
