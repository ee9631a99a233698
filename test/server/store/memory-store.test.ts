import { createMemoryStore } from '../../../src/server/store/memory-store.ts';
import { describeStore } from './contract.ts';

describeStore('memory', async (options) => createMemoryStore(options));
