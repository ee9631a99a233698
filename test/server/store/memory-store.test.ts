import { createMemoryStore } from '../../../src/sms/store/memory-store.ts';
import { describeStore } from './contract.ts';

describeStore('memory', async (options) => createMemoryStore(options));
