"""Spark's built-in formats, and the options of each.

The names are those of Spark 4.3's own readers and writers. A format that is not in the table
(Delta, Iceberg, a data source of the user's own) is accepted with any option.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Format:
    name: str
    read: frozenset[str] | None
    """Options for reading; None when it cannot be read."""
    write: frozenset[str] | None
    """Options for writing; None when it cannot be written."""
    files: bool = False
    """Data in files: the format needs a path, and a stream of it needs a schema."""
    fixed_schema: bool = False
    batch: bool = True
    streaming_read: bool = False
    streaming_write: bool = False
    streaming_modes: tuple[str, ...] = ("append", "update", "complete")
    open_prefix: str | None = None
    """Options with this prefix are passed on to the external system unchecked."""
    needed_read: tuple[tuple[str, ...], ...] = ()
    """One option of each group is required for reading."""
    needed_write: tuple[tuple[str, ...], ...] = ()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FILES_READ = _words(
    "basePath pathGlobFilter recursiveFileLookup modifiedBefore modifiedAfter ignoreCorruptFiles "
    "ignoreMissingFiles ignoredPathSegmentRegex archivePathFilter mergeSchema maxFilesPerTrigger "
    "maxBytesPerTrigger maxFileAge latestFirst fileNameOnly sourceArchiveDir cleanSource "
    "maxCachedFiles discardCachedInputRatio"
)
_FILES_WRITE = _words("compression codec maxRecordsPerFile partitionOverwriteMode retention")
_TEXTUAL = _words(
    "mode locale dateFormat timestampFormat timestampNTZFormat timeFormat timeZone multiLine "
    "encoding charset lineSep columnNameOfCorruptRecord samplingRatio singleVariantColumn "
    "enableDateTimeParsingFallback"
)
_CSV = _TEXTUAL | _words(
    "header inferSchema ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace preferDate escapeQuotes "
    "quoteAll enforceSchema quote escape comment maxColumns maxCharsPerColumn nullValue nanValue "
    "maxMalformedLogPerPartition charToEscapeQuoteEscaping emptyValue inputBufferSize positiveInf "
    "negativeInf unescapedQuoteHandling extension sep delimiter columnPruning"
)
_JSON = _TEXTUAL | _words(
    "primitivesAsString prefersDecimal allowComments allowUnquotedFieldNames allowSingleQuotes "
    "allowNumericLeadingZeros allowNumericLeadingZero allowNonNumericNumbers inferTimestamp "
    "allowBackslashEscapingAnyCharacter allowUnquotedControlChars dropFieldIfAllNull "
    "ignoreNullFields pretty sortKeys writeNonAsciiCharacterAsCodePoint useUnsafeRow"
)
_XML = _TEXTUAL | _words(
    "rowTag rootTag declaration arrayElementName excludeAttribute attributePrefix valueTag "
    "nullValue ignoreSurroundingSpaces rowValidationXSDPath wildcardColName ignoreNamespace "
    "inferSchema preferDate indent prefersDecimal validateName useLegacyXMLParser"
)
_PARQUET = _words("datetimeRebaseMode int96RebaseMode parquet.compression")
_TEXT = _words("wholetext encoding lineSep")
_AVRO = _words(
    "avroSchema avroSchemaUrl ignoreExtension recordName recordNamespace datetimeRebaseMode "
    "positionalFieldMatching enableStableIdentifiersForUnionType "
    "stableIdentifierPrefixForUnionType recursiveFieldMaxDepth"
)
_JDBC = _words(
    "url dbtable query driver user password partitionColumn lowerBound upperBound numPartitions "
    "queryTimeout fetchsize truncate cascadeTruncate createTableOptions createTableColumnTypes "
    "customSchema batchsize isolationLevel sessionInitStatement pushDownPredicate "
    "pushDownAggregate pushDownLimit pushDownOffset pushDownTableSample pushDownJoin keytab "
    "principal tableComment refreshKrb5Config connectionProvider prepareQuery preferTimestampNTZ "
    "preferTimestampNanos hint"
)
_KAFKA_READ = _words(
    "assign subscribe subscribePattern startingOffsets startingOffsetsByTimestamp "
    "startingTimestamp endingOffsets endingOffsetsByTimestamp endingTimestamp failOnDataLoss "
    "minPartitions maxRecordsPerPartition maxOffsetsPerTrigger minOffsetsPerTrigger "
    "maxTriggerDelay groupIdPrefix includeHeaders startingOffsetsByTimestampStrategy "
    "kafkaConsumer.pollTimeoutMs fetchOffset.numRetries fetchOffset.retryIntervalMs"
)


def _file_format(
    name: str,
    options: frozenset[str],
    *,
    read: frozenset[str] = frozenset(),
    fixed_schema: bool = False,
    open_prefix: str | None = None,
) -> Format:
    return Format(
        name=name,
        read=_FILES_READ | options | read,
        write=_FILES_WRITE | options,
        files=True,
        fixed_schema=fixed_schema,
        streaming_read=True,
        streaming_write=True,
        streaming_modes=("append",),
        open_prefix=open_prefix,
    )


_ALL = (
    _file_format("csv", _CSV),
    _file_format("json", _JSON),
    _file_format("xml", _XML),
    _file_format("parquet", _PARQUET, open_prefix="parquet."),
    _file_format("orc", frozenset(), open_prefix="orc."),
    _file_format("text", _TEXT, fixed_schema=True),
    _file_format("avro", _AVRO),
    Format(
        name="binaryFile",
        read=_FILES_READ,
        write=None,
        files=True,
        fixed_schema=True,
        streaming_read=True,
    ),
    Format(
        name="jdbc",
        read=_JDBC,
        write=_JDBC,
        # Further options are properties of the database's own driver.
        open_prefix="",
        needed_read=(("url",), ("dbtable", "query")),
        needed_write=(("url",), ("dbtable",)),
    ),
    Format(
        name="kafka",
        read=_KAFKA_READ,
        write=_words("topic includeHeaders"),
        streaming_read=True,
        streaming_write=True,
        open_prefix="kafka.",
        needed_read=(
            ("kafka.bootstrap.servers",),
            ("subscribe", "subscribePattern", "assign"),
        ),
        needed_write=(("kafka.bootstrap.servers",),),
    ),
    Format(
        name="rate",
        read=_words("rowsPerSecond rampUpTime numPartitions"),
        write=None,
        fixed_schema=True,
        batch=False,
        streaming_read=True,
    ),
    Format(
        name="rate-micro-batch",
        read=_words("rowsPerBatch numPartitions startTimestamp advanceMillisPerBatch"),
        write=None,
        fixed_schema=True,
        batch=False,
        streaming_read=True,
        needed_read=(("rowsPerBatch",),),
    ),
    Format(
        name="socket",
        read=_words("host port includeTimestamp numPartitions"),
        write=None,
        fixed_schema=True,
        batch=False,
        streaming_read=True,
        needed_read=(("host",), ("port",)),
    ),
    Format(
        name="memory",
        read=None,
        write=_words("queryName"),
        batch=False,
        streaming_write=True,
        streaming_modes=("append", "complete"),
        needed_write=(("queryName",),),
    ),
    Format(
        name="console",
        read=None,
        write=_words("numRows truncate"),
        streaming_write=True,
    ),
    Format(name="noop", read=None, write=frozenset(), streaming_write=True),
)
_BY_FOLDED_NAME = {known.name.lower(): known for known in _ALL}

KNOWN_FORMATS = tuple(known.name for known in _ALL)


def known_format(name: str) -> Format | None:
    return _BY_FOLDED_NAME.get(name.lower())
