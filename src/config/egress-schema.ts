import { z } from 'zod';
import { parseBlock } from '../base/ip-block.ts';
import { addressWords } from './egress.ts';
import { strictTable } from './strict-table.ts';

const HOST_PATTERN = /^[A-Za-z0-9*?._:-]+$/;

/** `[egress]` of a node and of a registry that tests servers. */
export const egressTable = strictTable({
  allow_hosts: z
    .array(z.string().regex(HOST_PATTERN, 'must be a host name or pattern, such as "*.example.com", without a port'))
    .optional(),
  allow_addresses: z
    .array(
      z
        .string()
        .refine(
          (text) => Object.hasOwn(addressWords, text) || parseBlock(text) !== null,
          `must be an IP address, a CIDR block such as "10.1.0.0/16", or one of ${Object.keys(addressWords).join(', ')}`,
        ),
    )
    .optional(),
});
