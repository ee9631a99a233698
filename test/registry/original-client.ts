import { fileURLToPath } from 'node:url';
import grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { onStop } from './running-sms.ts';

// A client that shares nothing with the server: another library, and a .proto with the original numbers alone.

const proto = (file: string) => fileURLToPath(new URL(`../../fixtures/proto/${file}`, import.meta.url));
const loading = { keepCase: true, longs: Number, enums: String, defaults: true } as const;

export const originalDefinition = loadSync(proto('original_registry.proto'), loading);
const registryPackage = grpc.loadPackageDefinition(originalDefinition);
const taskPackage = grpc.loadPackageDefinition(loadSync(proto('original_task.proto'), loading));
const healthPackage = grpc.loadPackageDefinition(loadSync(proto('health.proto'), loading));

const services = {
  registry: [registryPackage, 'sms.McpRegistryService'],
  tasks: [taskPackage, 'sms.TaskService'],
  health: [healthPackage, 'grpc.health.v1.Health'],
} as const;

type Message = Readonly<Record<string, unknown>>;
type Unary = (request: Message, metadata: grpc.Metadata, done: (error: Error | null, answer: Message) => void) => void;
type Streaming = (request: Message, metadata: grpc.Metadata) => grpc.ClientReadableStream<Message>;

export class OriginalClient {
  readonly #client: grpc.Client;
  readonly #metadata = new grpc.Metadata();

  constructor(address: string, token: string, service: keyof typeof services = 'registry', ca: string | null = null) {
    const [root, name] = services[service];
    const Service = serviceOf(root, name);
    const credentials = ca === null ? grpc.credentials.createInsecure() : grpc.credentials.createSsl(Buffer.from(ca));
    this.#client = new Service(address, credentials);
    if (token !== '') this.#metadata.set('authorization', `Bearer ${token}`);
    onStop(() => this.#client.close());
  }

  call(method: string, request: Message = {}): Promise<Message> {
    return new Promise((resolve, reject) => {
      this.#method<Unary>(method)(request, this.#metadata, (error, answer) => {
        if (error === null) resolve(answer);
        else reject(error);
      });
    });
  }

  stream(method: string, request: Message = {}): grpc.ClientReadableStream<Message> {
    const stream = this.#method<Streaming>(method)(request, this.#metadata);
    // A stream that a test has cancelled still fails, and nobody waits for that.
    stream.on('error', () => {});
    return stream;
  }

  #method<F>(name: string): F {
    const method = Reflect.get(this.#client, name) as (...args: unknown[]) => unknown;
    return method.bind(this.#client) as F;
  }
}

function serviceOf(root: grpc.GrpcObject, path: string): grpc.ServiceClientConstructor {
  let found: unknown = root;
  for (const part of path.split('.')) found = Reflect.get(found as object, part);
  return found as grpc.ServiceClientConstructor;
}

/** The next message of a stream, or the error that ends it. */
export function nextMessage(stream: grpc.ClientReadableStream<Message>): Promise<Message> {
  return new Promise((resolve, reject) => {
    const settle = (finish: () => void) => {
      stream.off('data', onData);
      stream.off('error', onError);
      stream.off('end', onEnd);
      stream.pause();
      finish();
    };
    const onData = (message: Message) => settle(() => resolve(message));
    const onError = (error: Error) => settle(() => reject(error));
    const onEnd = () => settle(() => reject(new Error('the stream ended')));
    stream.on('data', onData);
    stream.on('error', onError);
    stream.on('end', onEnd);
    stream.resume();
  });
}

export const status = grpc.status;
